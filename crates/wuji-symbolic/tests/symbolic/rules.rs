//! Every simplification rule, by evaluation of what it makes of random expressions.

use crate::Random;
use expect_test::{Expect, expect};
use wuji_symbolic::arena::{Arena, Id, Node};
use wuji_symbolic::op::{Binary, Unary};
use wuji_symbolic::pipeline::harvest::Template;
use wuji_symbolic::pipeline::simplify::{Simplify, simplify};

fn only(change: impl FnOnce(&mut Simplify)) -> Simplify {
    let mut rules = Simplify::none();
    change(&mut rules);
    rules
}

fn all_rules() -> Vec<(&'static str, Simplify)> {
    vec![
        ("factors", only(|r| r.factors = true)),
        ("fractions", only(|r| r.fractions = true)),
        ("sums", only(|r| r.sums = true)),
        ("roots", only(|r| r.roots = true)),
        ("constants", only(|r| (r.constants, r.sums) = (true, true))),
        ("all", Simplify::default()),
    ]
}

/// A random expression of a few positive inputs, with many equal parts.
fn random_template(random: &mut Random) -> Template {
    let mut arena = Arena::default();
    let mut values: Vec<Id> = (0..3).map(|k| arena.input(0, k)).collect();
    values.push(arena.constant(2.0));
    for _ in 0..12 {
        let (a, b) = (
            values[random.below(values.len())],
            values[random.below(values.len())],
        );
        let value = match random.below(7) {
            0 | 1 => arena.binary(Binary::Add, a, b),
            2 | 3 => arena.binary(Binary::Mul, a, b),
            4 => arena.binary(Binary::Div, a, b),
            5 => arena.sub(a, b),
            _ => {
                let square = arena.binary(Binary::Mul, a, b);
                let size = arena.unary(Unary::Abs, square);
                arena.unary(Unary::Sqrt, size)
            }
        };
        values.push(value);
    }
    let roots = values.split_off(values.len() - 3);
    Template { arena, roots }
}

#[test]
fn every_rule_keeps_the_value_of_random_expressions() {
    let mut random = Random(21);
    for (name, rules) in all_rules() {
        let mut changed = 0;
        for _ in 0..400 {
            let template = random_template(&mut random);
            let simple = simplify(&template, &rules, u64::MAX);
            changed += u32::from(simple.arena.len() != template.arena.len());
            let x = random.numbers(3);
            let (before, after) = (
                template.arena.evaluate(|_, k| x[k as usize]),
                simple.arena.evaluate(|_, k| x[k as usize]),
            );
            let size = before
                .iter()
                .filter(|v| v.is_finite())
                .fold(1.0, |m: f64, v| m.max(v.abs()));
            for (a, b) in template.roots.iter().zip(&simple.roots) {
                let (a, b) = (before[a.0 as usize], after[b.0 as usize]);
                let close = (a - b).abs() <= 1e-9 * size.max(a.abs());
                assert!(close || !a.is_finite(), "{name}: {b} instead of {a}");
            }
        }
        assert!(changed > 20, "{name} changed {changed} expressions");
    }
}

#[test]
fn collisions_of_algebraic_hashes_have_no_effect() {
    let mut random = Random(22);
    for _ in 0..200 {
        let template = random_template(&mut random);
        let text = |mask| show(&simplify(&template, &Simplify::default(), mask));
        let x = random.numbers(3);
        let simple = simplify(&template, &Simplify::default(), 1);
        let (before, after) = (
            template.arena.evaluate(|_, k| x[k as usize]),
            simple.arena.evaluate(|_, k| x[k as usize]),
        );
        for (a, b) in template.roots.iter().zip(&simple.roots) {
            let (a, b) = (before[a.0 as usize], after[b.0 as usize]);
            let close = (a - b).abs() <= 1e-6 * a.abs().max(1.0);
            assert!(
                close || !a.is_finite(),
                "{b} instead of {a}\n{}",
                text(u64::MAX)
            );
        }
    }
}

fn show(template: &Template) -> String {
    fn term(arena: &Arena, id: Id) -> String {
        match arena.node(id) {
            Node::Const(value) => format!("{value}"),
            Node::Input { index, .. } => ["x", "y", "z", "w", "v", "u"][index as usize].to_string(),
            Node::Unary(op, a) => format!("{}({})", op.name(), term(arena, a)),
            Node::Binary(op, a, b) => {
                let known = [(Binary::Add, " + "), (Binary::Mul, "*"), (Binary::Div, "/")];
                let sign = known.iter().find(|k| k.0 == op).map_or(op.name(), |k| k.1);
                format!("({}{sign}{})", term(arena, a), term(arena, b))
            }
            Node::Not(_)
            | Node::Compare(..)
            | Node::Logic(..)
            | Node::Select(..)
            | Node::Pair(..) => arena.op(id).name().to_string(),
        }
    }
    let roots: Vec<String> = template
        .roots
        .iter()
        .map(|r| term(&template.arena, *r))
        .collect();
    roots.join(", ")
}

fn check(rules: Simplify, build: impl FnOnce(&mut Arena, [Id; 6]) -> Id, expected: Expect) {
    let mut arena = Arena::default();
    let inputs = [0, 1, 2, 3, 4, 5].map(|k| arena.input(0, k));
    let root = build(&mut arena, inputs);
    let template = Template {
        arena,
        roots: vec![root],
    };
    expected.assert_eq(&show(&simplify(&template, &rules, u64::MAX)));
}

fn product(arena: &mut Arena, factors: &[Id]) -> Id {
    let one = arena.constant(1.0);
    factors
        .iter()
        .fold(one, |p, f| arena.binary(Binary::Mul, p, *f))
}

fn sum(arena: &mut Arena, terms: &[Id]) -> Id {
    let zero = arena.constant(0.0);
    terms
        .iter()
        .fold(zero, |s, t| arena.binary(Binary::Add, s, *t))
}

#[test]
fn common_factors_are_factored_out() {
    // Without `sums`, sums are left as they are.
    let rules = only(|r| (r.factors, r.sums) = (true, true));
    let build = |m: &mut Arena, [x, y, z, w, v, u]: [Id; 6]| {
        let terms = [
            product(m, &[x, y, z]),
            product(m, &[x, w, y]),
            product(m, &[v, x, y]),
            product(m, &[u, x]),
        ];
        sum(m, &terms)
    };
    check(rules, build, expect!["(x*(u + (y*(w + (z + v)))))"]);
}

#[test]
fn fractions_are_reduced() {
    let rules = only(|r| r.fractions = true);
    let build = |m: &mut Arena, [x, y, z, w, ..]: [Id; 6]| {
        let s = sum(m, &[x, y]);
        let (a, b) = (product(m, &[s, z, z]), product(m, &[s, s, w]));
        let (c, d) = (product(m, &[w, w]), z);
        let (left, right) = (m.binary(Binary::Div, a, b), m.binary(Binary::Div, c, d));
        product(m, &[left, right])
    };
    check(rules, build, expect!["((z*w)/(x + y))"]);
}

#[test]
fn like_terms_are_collected() {
    let rules = only(|r| r.sums = true);
    let build = |m: &mut Arena, [x, y, ..]: [Id; 6]| {
        let (first, both, two) = (sum(m, &[x, x, y]), sum(m, &[y, x]), m.constant(2.0));
        let twice = product(m, &[two, both]);
        m.sub(first, twice)
    };
    check(rules, build, expect!["neg(y)"]);
}

#[test]
fn square_roots_of_squares_disappear() {
    let rules = only(|r| r.roots = true);
    let build = |m: &mut Arena, [x, y, ..]: [Id; 6]| {
        let (xx, yy) = (product(m, &[x, x]), product(m, &[y, y]));
        let squares = sum(m, &[xx, yy]);
        let norm = m.unary(Unary::Sqrt, squares);
        product(m, &[norm, norm])
    };
    check(rules, build, expect!["((x*x) + (y*y))"]);
    let build = |m: &mut Arena, [x, ..]: [Id; 6]| {
        let square = product(m, &[x, x]);
        m.unary(Unary::Sqrt, square)
    };
    check(rules, build, expect!["abs(x)"]);
}

#[test]
fn expressions_that_are_constant_become_constants() {
    let rules = only(|r| (r.constants, r.sums) = (true, true));
    let build = |m: &mut Arena, [x, y, ..]: [Id; 6]| {
        let d = m.sub(x, y);
        let (dd, xy) = (product(m, &[d, d]), product(m, &[x, y]));
        let (xx, yy) = (product(m, &[x, x]), product(m, &[y, y]));
        let above = sum(m, &[dd, xy]);
        let rest = m.sub(xx, xy);
        let below = sum(m, &[rest, yy]);
        m.binary(Binary::Div, above, below)
    };
    check(rules, build, expect!["1"]);
}

#[test]
fn sums_are_left_alone_where_cancellation_matters() {
    let rules = Simplify {
        sums: false,
        ..Simplify::default()
    };
    let build = |m: &mut Arena, [x, y, ..]: [Id; 6]| {
        let both = sum(m, &[x, y]);
        m.sub(both, x)
    };
    check(rules, build, expect!["((x + y) + neg(x))"]);
}
