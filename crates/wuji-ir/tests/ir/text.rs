//! The text format: round trips of every construct, and malformed texts.

use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::verify::verify;

/// One of everything, in the form that printing gives.
const EVERYTHING: &str = include_str!("everything.wir");

fn read(text: &str) -> Module {
    parse(text, "test.wir").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn everything_round_trips() {
    let module = read(EVERYTHING);
    expect_test::expect_file!["everything.wir"].assert_eq(&module.to_string());
    assert_eq!(module, module.compacted());
    verify(&module).unwrap();
}

#[test]
fn numbers_of_values_and_labels_are_made_dense() {
    let text = "fn fn0(v7: i32) -> i32 {
  v900: i32 = loop L30 (v3: i32 = v7) {
    break L30 (v3)
  }
  return v900
}
";
    let dense = "fn fn0(v0: i32) -> i32 {
  v1: i32 = loop L0 (v2: i32 = v0) {
    break L0 (v2)
  }
  return v1
}
";
    assert_eq!(read(text).to_string(), dense);
    assert_eq!(read(text), read(dense));
}

/// Every 16-bit float, and the edges of the others, read back to the same bits.
#[test]
fn constants_keep_their_bits() {
    let check = |imm: Imm| {
        let text = format!(
            "fn fn0() {{\n  v0: {} = const {imm}\n  return\n}}\n",
            imm.ty
        );
        assert_eq!(read(&text).to_string(), text);
        let module = read(&text);
        let func = module.funcs.values().next().unwrap();
        let value = func.insts.values().next().unwrap().results[0];
        assert_eq!(func.constant(value), Some(imm), "{text}");
    };
    for bits in 0..=u16::MAX {
        check(Imm::from_bits(Scalar::F16, u64::from(bits)));
    }
    for ty in Scalar::ALL {
        let mut bits = 1u64;
        for _ in 0..400 {
            // A few hundred scattered patterns.
            bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ 0x5bd1_e995;
            check(Imm::from_bits(ty, bits));
            check(Imm::from_bits(ty, bits >> 40));
            check(Imm::from_bits(ty, !0 << (bits % 64)));
        }
    }
}

/// A truncated text is rejected, without a panic.
#[test]
fn truncated_texts_are_errors_or_shorter_modules() {
    for at in (0..EVERYTHING.len()).filter(|at| EVERYTHING.is_char_boundary(*at)) {
        if let Ok(module) = parse(&EVERYTHING[..at], "cut.wir") {
            let _ = verify(&module);
        }
    }
}

/// A valid text with a few random changes never makes the parser, the verifier or the printer panic; and
/// accepted texts round-trip.
#[test]
fn mutated_texts_do_not_panic() {
    let words: Vec<&str> = EVERYTHING
        .split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .collect();
    let odd = [
        "v4294967295",
        "v4294967294",
        "99999999999999999999999999",
        "-9223372036854775808",
        "f32x255x255",
        "f32x0",
        "\"",
        "\\u{110000}",
        "{",
        "}",
        "(",
        ".",
        "..",
        "é",
        "\u{0}",
        "s0",
        "S0",
        "0x",
        "nan(0x7fc00001)",
        "1e999",
        "@F0:0:0",
        ";",
    ];
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut random = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let (mut read, mut sound) = (0, 0);
    for _ in 0..6000 {
        let mut mutant: Vec<&str> = words.clone();
        for _ in 0..=random(3) {
            let at = random(mutant.len());
            match random(4) {
                0 => drop(mutant.remove(at)),
                1 => mutant[at] = odd[random(odd.len())],
                2 => mutant[at] = words[random(words.len())],
                _ => {
                    let other = random(mutant.len());
                    mutant.swap(at, other);
                }
            }
        }
        let Ok(module) = parse(&mutant.concat(), "mutant.wir") else {
            continue;
        };
        read += 1;
        let printed = module.to_string();
        let again = parse(&printed, "printed.wir").unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(again, module.compacted(), "{printed}");
        if let Err(e) = verify(&module) {
            let _ = e.to_string();
        } else {
            sound += 1;
        }
    }
    assert!(
        read > 100 && sound > 10,
        "the mutations reject too much: {read} {sound}"
    );
}

#[test]
fn deep_nesting_is_rejected_with_a_position() {
    let nested = |depth: usize| {
        let mut text = String::from("fn fn0() {\n");
        for k in 0..depth {
            text += &format!("block L{k} {{\n");
        }
        text += &"yield }\n".repeat(depth);
        text + "return\n}\n"
    };
    verify(&read(&nested(200))).unwrap();
    let error = parse(&nested(201), "deep.wir").unwrap_err();
    assert_eq!(error.code, "W0006");
    assert_eq!(error.at.unwrap().line, 203);
    assert_eq!(
        parse(&nested(100_000), "deep.wir").unwrap_err().code,
        "W0006"
    );

    let tree = |depth: usize| {
        let mut text = String::from("tree T0 {");
        for k in 1..=depth {
            text += &format!("dense S{k} [i: 1] {{");
        }
        text + &"}".repeat(depth + 1)
    };
    verify(&read(&tree(200))).unwrap();
    assert_eq!(parse(&tree(100_000), "deep.wir").unwrap_err().code, "W0006");
}

#[test]
fn exponentially_large_structs_are_rejected() {
    let mut text = String::from("struct s0 { }\n");
    for k in 1..64 {
        text += &format!("struct s{k} {{ a: s{}, b: s{} }}\n", k - 1, k - 1);
    }
    let error = verify(&read(&text)).unwrap_err();
    assert_eq!(error.code, "W0021");
}
