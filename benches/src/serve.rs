//! `wuji-bench --serve NAME`: runs one workload when it is told to, so that a program in another language can take turns
//! with it in one run.
//!
//! Each line of the input is a request, and each is answered by a line: `run N` runs the workload N times and gives the seconds that took,
//! `finish` waits until the best code is there, `work` gives the units that a run gets through, `result` gives how many numbers there are, which follow as bytes.

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
            _ => return Err(format!("`{line}` is no request")),
        };
        out.write_all(&answer)
            .and_then(|()| out.flush())
            .map_err(|e| format!("cannot answer: {e}"))?;
    }
    Ok(())
}
