//! `wuji-bench --serve NAME`: runs one workload on request, so that a program in another language can interleave its
//! samples with these.
//!
//! Each line of the input is a request, and each gets one line as an answer. `run N` runs the workload N times and
//! answers with the elapsed seconds. `finish` waits for the best code. `work` answers with the work of one run.
//! `result` answers with the number of floats, which follow as bytes.

use std::io::{BufRead, Write};

use wuji::World;

use crate::case::Case;
use crate::measure::Clock;

pub fn serve(case: &dyn Case, world: &World, clock: Clock) -> Result<(), String> {
    let mut contender = case.wuji(world).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("cannot read a request: {e}"))?;
        let mut words = line.split_whitespace();
        let answer = match (words.next(), words.next().map(str::parse::<usize>)) {
            (Some("run"), Some(Ok(times))) => {
                let start = clock.now();
                for _ in 0..times {
                    contender.run()?;
                }
                format!("{:.9}\n", clock.now() - start).into_bytes()
            }
            (Some("work"), None) => format!("{}\n", case.work()).into_bytes(),
            (Some("finish"), None) => {
                world.finish_compiling().map_err(|e| e.to_string())?;
                b"done\n".to_vec()
            }
            (Some("result"), None) => {
                let numbers = contender.result()?;
                let mut bytes = format!("{}\n", numbers.len()).into_bytes();
                bytes.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
                bytes
            }
            _ => return Err(format!("unknown request `{line}`")),
        };
        out.write_all(&answer)
            .and_then(|()| out.flush())
            .map_err(|e| format!("cannot answer: {e}"))?;
    }
    Ok(())
}
