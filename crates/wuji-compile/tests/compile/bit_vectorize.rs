//! Loops over bits against the interpreter, on random bodies.

use wuji_compile::{Cx, Options, run_pass};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Value};
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::{Function, Module, Term, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// A sequence of random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % n
    }
}

/// Two fields of bits with different origins, a counter, and a field of ordinary numbers.
fn fields(bits: u32) -> String {
    format!(
        "module \"bits\"
tree T0 {{ dense S1 [i: 4, j: 3] {{ place f0
  bit_array S2 [j: {bits}] {{ place f1 }} }} }}
tree T1 {{ dense S1 [i: 4, j: 3] {{ place f2
  bit_array S2 [j: {bits}] {{ place f3 }} }} }}
tree T2 {{ dense S1 [i: 4] {{ place f4, f5 }} }}
field f0 \"word x\": u{bits} in T0.S1 (i, j)
field f1 \"x\": u32 in T0.S2 (i, j) packed (uint 1 in f0 at 0)
field f2 \"word y\": u{bits} in T1.S1 (i, j)
field f3 \"y\": i32 in T1.S2 (i, j from -5) packed (int 1 in f2 at 0)
field f4 \"count\": i64 in T2.S1 (i)
field f5 \"limit\": i32 in T2.S1 (i)
"
    )
}

struct Body<'a, 'd> {
    b: Builder<'a>,
    dice: &'d mut Dice,
    i: Value,
    j: Value,
    ints: Vec<Value>,
    bools: Vec<Value>,
}

impl Body<'_, '_> {
    fn pick(&mut self, from: &[Value]) -> Value {
        from[self.dice.below(from.len() as u64) as usize]
    }

    fn near(&mut self, index: Value, most: i64) -> Value {
        let by = self.dice.below(2 * most as u64 + 1) as i64 - most;
        let by = self.b.int(Scalar::I32, by.into());
        self.b.binary(BinOp::Add, index, by)
    }

    fn load(&mut self) -> Value {
        let (i, j) = (self.i, self.j);
        let at = [self.near(i, 2), self.near(j, 9)];
        let bit = self.b.load(Place::Field(Field::from_u32(1)), &at);
        self.b.convert(bit, Scalar::I32)
    }

    fn step(&mut self) {
        let ints = self.ints.clone();
        let bools = self.bools.clone();
        let (a, c) = (self.pick(&ints), self.pick(&ints));
        let (p, q) = (self.pick(&bools), self.pick(&bools));
        match self.dice.below(12) {
            0 | 1 => {
                let bit = self.load();
                self.ints.push(bit);
            }
            2 | 3 => {
                let sum = self.b.binary(BinOp::Add, a, c);
                self.ints.push(sum);
            }
            4 => {
                let difference = self.b.binary(BinOp::Sub, a, c);
                self.ints.push(difference);
            }
            5 => {
                let op = [BinOp::Min, BinOp::Max][self.dice.below(2) as usize];
                let value = self.b.binary(op, a, c);
                self.ints.push(value);
            }
            6 | 7 => {
                let ops = [
                    CmpOp::Eq,
                    CmpOp::Ne,
                    CmpOp::Lt,
                    CmpOp::Le,
                    CmpOp::Gt,
                    CmpOp::Ge,
                ];
                let op = ops[self.dice.below(6) as usize];
                let c = if self.dice.below(2) == 0 {
                    let n = self.dice.below(9) as i128 - 3;
                    self.b.int(Scalar::I32, n)
                } else {
                    c
                };
                let value = self.b.compare(op, a, c);
                self.bools.push(value);
            }
            8 => {
                let ops = [BinOp::And, BinOp::Or, BinOp::Xor];
                let op = ops[self.dice.below(3) as usize];
                let value = self.b.binary(op, p, q);
                self.bools.push(value);
            }
            9 => {
                let value = self.b.select(p, a, c);
                self.ints.push(value);
            }
            10 => {
                let n = self.dice.below(40) as i128 - 3;
                let n = self.b.int(Scalar::I32, n);
                let j = self.j;
                let value = self.b.compare(CmpOp::Lt, j, n);
                self.bools.push(value);
            }
            _ => {
                let inst = self.b.if_else(
                    p,
                    &[Type::Scalar(Scalar::I32)],
                    |b| [b.binary(BinOp::Add, a, c)].into_iter().collect(),
                    |_| [c].into_iter().collect(),
                );
                let value = self.b.func.result(inst);
                self.ints.push(value);
            }
        }
    }
}

/// A kernel whose loop over bits has a random body.
fn module(dice: &mut Dice, bits: u32) -> Module {
    let mut m = wuji_ir::text::parse(&fields(bits), "fields").unwrap();
    let over_field = dice.below(2) == 0;
    let mut f = Function::new("kernel", &[], &[]);
    let mut b = Builder::new(&mut m, &mut f);
    let label = b.func.fresh_label();
    let i32 = Type::Scalar(Scalar::I32);
    let domain = if over_field {
        Domain::Field(Field::from_u32(3))
    } else {
        Domain::Range { rank: 2 }
    };
    let args: Vec<Value> = if over_field {
        Vec::new()
    } else {
        let lo = dice.below(20) as i128 - 5;
        let hi = lo + dice.below(2 * u64::from(bits)) as i128;
        let hi = hi.min(3 * i128::from(bits) - 5);
        [0, 4, lo, hi].map(|n| b.int(Scalar::I32, n)).to_vec()
    };
    let inst = b.push_typed(Op::ForEach(label, domain, LoopHints::default()), &args, &[]);
    let region = b.func.add_region(&[i32, i32]);
    b.func.insts[inst].regions.push(region);
    let outer = std::mem::replace(&mut b.region, region);
    let at = b.func.regions[region].params.clone();
    let mut body = Body {
        b,
        dice,
        i: at[0],
        j: at[1],
        ints: Vec::new(),
        bools: Vec::new(),
    };
    let first = body.load();
    let limit = body.b.load(Place::Field(Field::from_u32(5)), &[at[0]]);
    let zero = body.b.int(Scalar::I32, 0);
    let uniform = body.b.compare(CmpOp::Gt, limit, zero);
    body.ints.push(first);
    body.bools.push(uniform);
    for _ in 0..3 + body.dice.below(25) {
        body.step();
    }
    let (ints, bools) = (body.ints.clone(), body.bools.clone());
    let value = body.pick(&ints);
    let place = Place::Field(Field::from_u32(3));
    if body.dice.below(3) == 0 {
        let cond = body.pick(&bools);
        body.b.if_else(
            cond,
            &[],
            |b| {
                b.store(place, &at, value);
                Values::new()
            },
            |_| Values::new(),
        );
    } else {
        body.b.store(place, &at, value);
    }
    if body.dice.below(2) == 0 {
        let value = body.pick(&ints);
        let value = body.b.convert(value, Scalar::I64);
        let access = Access::write(Place::Field(Field::from_u32(4)));
        body.b
            .push(Op::Atomic(AtomicOp::Add, access), &[at[0], value]);
    }
    body.b.end(Term::Continue(label, Values::new()));
    let mut b = body.b;
    b.region = outer;
    b.end(Term::Return(Values::new()));
    m.kernel = Some(m.add_func(f));
    m
}

/// What a module leaves in its fields.
fn run(m: &Module, x: &[Imm]) -> Vec<Vec<Imm>> {
    let mut machine = Machine::new(m, Config::default()).unwrap();
    machine.fill(Field::from_u32(1), x).unwrap();
    let limits: Vec<Imm> = [-1, 1, 0, 2].map(|n| Imm::int(Scalar::I32, n)).to_vec();
    machine.fill(Field::from_u32(5), &limits).unwrap();
    machine.run(&[]).unwrap();
    let fields = [1, 3, 4].map(Field::from_u32);
    fields.iter().map(|f| machine.field(*f).unwrap()).collect()
}

#[test]
fn words_hold_what_bits_would() {
    let mut dice = Dice(7);
    let mut vectorized = 0;
    for round in 0..600 {
        let bits = [8, 16, 32, 64][round % 4];
        let m = module(&mut dice, bits);
        let x: Vec<Imm> = (0..4 * 3 * bits)
            .map(|_| Imm::int(Scalar::U32, dice.below(2).into()))
            .collect();
        let expected = run(&m, &x);
        let options = Options::default();
        let mut cx = Cx::new(&options);
        let mut after = m.clone();
        run_pass("offload", &mut after, &mut cx).unwrap();
        run_pass("bit_vectorize", &mut after, &mut cx).unwrap();
        wuji_ir::verify::verify(&after).unwrap_or_else(|e| panic!("{round}: {e}\n{m}\n{after}"));
        vectorized += usize::from(
            cx.remarks
                .iter()
                .any(|r| r.to_string().contains("at a time")),
        );
        assert_eq!(run(&after, &x), expected, "{round}\n{m}\n{after}");
    }
    assert!(
        vectorized > 300,
        "only {vectorized} of 600 loops run over words"
    );
}
