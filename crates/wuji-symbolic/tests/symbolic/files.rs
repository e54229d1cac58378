//! Traces in files.

use crate::{Random, interpreter};
use wuji_symbolic::{Options, Program, Real, Sym, Trace};

fn example() -> Trace {
    Trace::record(&[4, 2], |x| {
        let sums: Vec<Sym> = x[0]
            .iter()
            .map(|a| (*a * x[1][0]).sin() + x[1][1])
            .collect();
        wuji_symbolic::block(&sums[..2]);
        let chosen = Sym::select(sums[0].less(sums[1]), sums[2], Sym::new(1.5));
        vec![sums, vec![chosen]]
    })
    .unwrap()
}

#[test]
fn a_trace_is_saved_and_loaded() {
    let trace = example();
    let loaded = Trace::from_bytes(&trace.to_bytes()).unwrap();
    assert_eq!(loaded.fingerprint(), trace.fingerprint());
    let (x, y) = ([1.0, 2.0, 3.0, 4.0], [0.5, 0.25]);
    let expected = trace.evaluate(&[&x, &y]).unwrap();
    assert_eq!(loaded.evaluate(&[&x, &y]).unwrap(), expected);
    let program = Program::<f64, _>::compile(&interpreter(), &loaded, &Options::default()).unwrap();
    assert_eq!(program.run((&x[..], &y[..])).unwrap(), expected);
}

#[test]
fn files_are_written_and_read() {
    let path = std::env::temp_dir().join(format!("wuji-trace-{}", std::process::id()));
    example().save(&path).unwrap();
    let loaded = Trace::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded.fingerprint(), example().fingerprint());
    assert_eq!(Trace::load(&path).unwrap_err().code, "W0804");
}

#[test]
fn every_damaged_byte_is_found() {
    let bytes = example().to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(
            Trace::from_bytes(&damaged).unwrap_err().code,
            "W0804",
            "byte {at}"
        );
        assert_eq!(
            Trace::from_bytes(&bytes[..at]).unwrap_err().code,
            "W0804",
            "first {at} bytes"
        );
    }
}

/// A program that computes the checksum can write anything.
#[test]
fn contents_with_a_correct_checksum_are_checked() {
    let bytes = example().to_bytes();
    let mut random = Random(11);
    for _ in 0..3000 {
        let mut forged = bytes.clone();
        let at = 20 + random.below(bytes.len() - 20);
        forged[at] = random.next() as u8;
        let sum = checksum(&forged[20..]);
        forged[12..20].copy_from_slice(&sum.to_le_bytes());
        let small = |trace: &Trace| trace.inputs().iter().all(|n| *n < 1000);
        if let Some(trace) = Trace::from_bytes(&forged).ok().filter(small) {
            let inputs: Vec<Vec<f64>> = trace
                .inputs()
                .iter()
                .map(|n| vec![1.0; *n as usize])
                .collect();
            let slices: Vec<&[f64]> = inputs.iter().map(|x| &x[..]).collect();
            trace.evaluate(&slices).unwrap();
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut hash = mix(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash.rotate_left(7) ^ u64::from_le_bytes(word));
    }
    hash
}
