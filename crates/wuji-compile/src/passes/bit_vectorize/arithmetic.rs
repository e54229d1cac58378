//! Integers in binary digits, one word per digit.

use super::Refusal;
use super::evaluate::Evaluator;
use super::lanes::{Lane, Sum};
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp, Op, UnOp};
use wuji_ir::types::{Imm, Scalar};

/// The largest number of digits.
const MOST_DIGITS: usize = 16;

impl Evaluator<'_> {
    // ---- words ----

    pub(super) fn ones(&mut self) -> Value {
        self.constant(Imm::from_bits(self.word, u64::MAX))
    }

    pub(super) fn zeros(&mut self) -> Value {
        self.constant(Imm::zero(self.word))
    }

    pub(super) fn and(&mut self, a: Value, b: Value) -> Value {
        self.pure(Op::Binary(BinOp::And), &[a, b])
    }

    pub(super) fn or(&mut self, a: Value, b: Value) -> Value {
        self.pure(Op::Binary(BinOp::Or), &[a, b])
    }

    fn xor(&mut self, a: Value, b: Value) -> Value {
        self.pure(Op::Binary(BinOp::Xor), &[a, b])
    }

    pub(super) fn not(&mut self, a: Value) -> Value {
        self.pure(Op::Unary(UnOp::Not), &[a])
    }

    fn choose(&mut self, c: Value, a: Value, b: Value) -> Value {
        let (x, n) = (self.and(c, a), self.not(c));
        let y = self.and(n, b);
        self.or(x, y)
    }

    // ---- sums ----

    /// One word for each digit, above an offset that is the least value.
    pub(super) fn binary(&mut self, sum: &Sum) -> Result<Sum, Refusal> {
        if sum.is_binary() {
            return Ok(sum.clone());
        }
        let mut digits = sum.digits.clone();
        let span = (sum.most - sum.offset).max(0);
        let width = (128 - span.leading_zeros()) as usize;
        if width > MOST_DIGITS {
            return Err("an integer has too many digits".into());
        }
        let mut k = 0;
        while k < digits.len() {
            while digits[k].len() > 1 {
                let (low, carry) = match digits[k].len() {
                    2 => self.half_adder(&mut digits[k]),
                    _ => self.full_adder(&mut digits[k]),
                };
                digits[k].push(low);
                if digits.len() == k + 1 {
                    digits.push(Vec::new());
                }
                digits[k + 1].push(carry);
            }
            k += 1;
        }
        // Carries beyond the largest value are zero.
        digits.truncate(width);
        Ok(Sum {
            digits,
            ..sum.clone()
        })
    }

    fn half_adder(&mut self, bits: &mut Vec<Value>) -> (Value, Value) {
        let pair: Vec<Value> = bits.drain(..2).collect();
        (self.xor(pair[0], pair[1]), self.and(pair[0], pair[1]))
    }

    /// Takes the oldest bits, so that adders form a tree.
    fn full_adder(&mut self, bits: &mut Vec<Value>) -> (Value, Value) {
        let [a, b, c] = [bits[0], bits[1], bits[2]];
        bits.drain(..3);
        let ab = self.xor(a, b);
        let sum = self.xor(ab, c);
        let (x, y) = (self.and(a, b), self.and(ab, c));
        (sum, self.or(x, y))
    }

    fn add(&self, a: &Sum, b: &Sum) -> Sum {
        let mut digits = a.digits.clone();
        digits.resize_with(a.digits.len().max(b.digits.len()), Vec::new);
        for (to, from) in digits.iter_mut().zip(&b.digits) {
            to.extend(from);
        }
        Sum {
            offset: a.offset + b.offset,
            digits,
            least: a.least + b.least,
            most: a.most + b.most,
        }
    }

    /// `-b` is `1 - b` less one, for each bit.
    fn negate(&mut self, a: &Sum) -> Sum {
        let mut offset = -a.offset;
        let mut digits = Vec::new();
        for (k, words) in a.digits.iter().enumerate() {
            offset -= (words.len() as i128) << k;
            digits.push(words.iter().map(|w| self.not(*w)).collect());
        }
        Sum {
            offset,
            digits,
            least: -a.most,
            most: -a.least,
        }
    }

    /// Bits that are in both cancel: a sum of neighbours less one of them cannot be negative.
    fn subtract(&mut self, a: &Sum, b: &Sum) -> Sum {
        let (mut kept, mut taken) = (a.clone(), b.clone());
        for (a, b) in kept.digits.iter_mut().zip(&mut taken.digits) {
            b.retain(|word| match a.iter().position(|w| w == word) {
                Some(at) => {
                    a.remove(at);
                    false
                }
                None => true,
            });
        }
        let minus = self.negate(&taken);
        let mut sum = self.add(&kept, &minus);
        let weights = sum.digits.iter().enumerate();
        let all: i128 = weights.map(|(k, words)| (words.len() as i128) << k).sum();
        sum.least = (a.least - b.most).max(sum.offset);
        sum.most = (a.most - b.least).min(sum.offset + all);
        sum
    }

    /// Binary digits above another offset, which is not greater.
    fn above(&mut self, sum: &Sum, offset: i128) -> Result<Vec<Value>, Refusal> {
        let mut shifted = sum.clone();
        let mut more = sum.offset - offset;
        let mut k = 0;
        while more > 0 {
            if shifted.digits.len() == k {
                shifted.digits.push(Vec::new());
            }
            if more & 1 == 1 {
                let ones = self.ones();
                shifted.digits[k].push(ones);
            }
            more >>= 1;
            k += 1;
        }
        shifted.offset = offset;
        let binary = self.binary(&shifted)?;
        let zero = self.zeros();
        let digits = binary.digits.into_iter();
        Ok(digits.map(|d| d.first().copied().unwrap_or(zero)).collect())
    }

    /// Two integers as binary digits of the same number above the same offset.
    fn aligned(&mut self, a: &Sum, b: &Sum) -> Result<(i128, Vec<Value>, Vec<Value>), Refusal> {
        let offset = a.offset.min(b.offset);
        let (mut x, mut y) = (self.above(a, offset)?, self.above(b, offset)?);
        let n = x.len().max(y.len());
        let zero = self.zeros();
        x.resize(n, zero);
        y.resize(n, zero);
        Ok((offset, x, y))
    }

    /// One of two integers, by a bit for each element.
    pub(super) fn select(&mut self, c: Value, a: &Sum, b: &Sum) -> Result<Sum, Refusal> {
        let (offset, x, y) = self.aligned(a, b)?;
        let pairs = x.into_iter().zip(y);
        Ok(Sum {
            offset,
            digits: pairs.map(|(x, y)| vec![self.choose(c, x, y)]).collect(),
            least: a.least.min(b.least),
            most: a.most.max(b.most),
        })
    }

    /// A bit for each element: whether `a < b`, and whether they are equal.
    fn order(&mut self, a: &Sum, b: &Sum) -> Result<(Value, Value), Refusal> {
        let (_, x, y) = self.aligned(a, b)?;
        let (mut less, mut equal) = (self.zeros(), self.ones());
        for (x, y) in x.into_iter().zip(y).rev() {
            let not_x = self.not(x);
            let here = self.and(not_x, y);
            let here = self.and(equal, here);
            less = self.or(less, here);
            let differ = self.xor(x, y);
            let same = self.not(differ);
            equal = self.and(equal, same);
        }
        Ok((less, equal))
    }

    /// A bit for each element: whether an integer has a value.
    fn equals(&mut self, a: &Sum, value: i128) -> Result<Value, Refusal> {
        if value < a.least || value > a.most {
            return Ok(self.zeros());
        }
        let a = self.binary(a)?;
        let mut number = value - a.offset;
        let mut all: Option<Value> = None;
        for digit in &a.digits {
            let Some(word) = digit.first() else {
                if number & 1 == 1 {
                    return Ok(self.zeros());
                }
                number >>= 1;
                continue;
            };
            let word = if number & 1 == 1 {
                *word
            } else {
                self.not(*word)
            };
            all = Some(match all {
                Some(rest) => self.and(rest, word),
                None => word,
            });
            number >>= 1;
        }
        if number != 0 {
            return Ok(self.zeros());
        }
        Ok(match all {
            Some(all) => all,
            None => self.ones(),
        })
    }

    /// A comparison of integers.
    pub(super) fn compare(&mut self, op: CmpOp, a: &Sum, b: &Sum) -> Result<Sum, Refusal> {
        let constant = |s: &Sum| (s.least == s.most).then_some(s.least);
        let word = match op {
            CmpOp::Eq | CmpOp::Ne => {
                let equal = match (constant(a), constant(b)) {
                    (_, Some(value)) => self.equals(a, value)?,
                    (Some(value), None) => self.equals(b, value)?,
                    (None, None) => self.order(a, b)?.1,
                };
                if op == CmpOp::Eq {
                    equal
                } else {
                    self.not(equal)
                }
            }
            CmpOp::Lt => self.order(a, b)?.0,
            CmpOp::Gt => self.order(b, a)?.0,
            CmpOp::Ge => {
                let less = self.order(a, b)?.0;
                self.not(less)
            }
            CmpOp::Le => {
                let less = self.order(b, a)?.0;
                self.not(less)
            }
        };
        Ok(Sum::bit(word))
    }

    // ---- operations ----

    pub(super) fn binary_op(
        &mut self,
        op: BinOp,
        (a, b): (&Sum, &Sum),
        ty: Scalar,
    ) -> Result<Sum, Refusal> {
        let result = match op {
            BinOp::Add => self.add(a, b),
            BinOp::Sub => self.subtract(a, b),
            BinOp::Mul => self.product(a, b)?,
            BinOp::And | BinOp::Or | BinOp::Xor => self.bitwise(op, a, b)?,
            BinOp::Min => {
                let less = self.order(a, b)?.0;
                self.select(less, a, b)?
            }
            BinOp::Max => {
                let less = self.order(a, b)?.0;
                self.select(less, b, a)?
            }
            BinOp::Rem => self.remainder(a, b)?,
            BinOp::Div
            | BinOp::Shl
            | BinOp::Shr
            | BinOp::Pow
            | BinOp::Atan2
            | BinOp::PreciseAdd
            | BinOp::PreciseSub
            | BinOp::PreciseMul
            | BinOp::PreciseDiv => {
                return Err(format!("`{}` has no form for bits", op.name()));
            }
        };
        fits(result, ty)
    }

    /// A product with a bit or a constant.
    fn product(&mut self, a: &Sum, b: &Sum) -> Result<Sum, Refusal> {
        let is_bit = |s: &Sum| s.offset == 0 && s.digits.len() == 1 && s.digits[0].len() == 1;
        let (bit, other) = if is_bit(a) {
            (a.digits[0][0], b)
        } else if is_bit(b) {
            (b.digits[0][0], a)
        } else {
            return Err("a product of two integers has no form for bits".into());
        };
        let zero = Sum::constant(0);
        self.select(bit, other, &zero)
    }

    fn bitwise(&mut self, op: BinOp, a: &Sum, b: &Sum) -> Result<Sum, Refusal> {
        if a.least < 0 || b.least < 0 {
            return Err(format!(
                "`{}` of negative integers has no form for bits",
                op.name()
            ));
        }
        let (mut x, mut y) = (self.above(a, 0)?, self.above(b, 0)?);
        let zero = self.zeros();
        let n = x.len().max(y.len());
        x.resize(n, zero);
        y.resize(n, zero);
        let digits = x.into_iter().zip(y);
        let digits: Vec<Vec<Value>> = digits.map(|(x, y)| vec![self.b.binary(op, x, y)]).collect();
        Ok(Sum {
            offset: 0,
            least: 0,
            most: (1i128 << digits.len()) - 1,
            digits,
        })
    }

    /// The remainder by a power of two.
    fn remainder(&mut self, a: &Sum, b: &Sum) -> Result<Sum, Refusal> {
        let by = b.least;
        if b.least != b.most || by <= 0 || by & (by - 1) != 0 || a.least < 0 {
            return Err("this remainder has no form for bits".into());
        }
        let mut digits = self.above(a, 0)?;
        digits.truncate(by.trailing_zeros() as usize);
        Ok(Sum {
            offset: 0,
            least: 0,
            most: a.most.min(by - 1),
            digits: digits.into_iter().map(|d| vec![d]).collect(),
        })
    }

    pub(super) fn unary_op(&mut self, op: UnOp, a: &Sum, ty: Scalar) -> Result<Sum, Refusal> {
        if op == UnOp::Not && ty == Scalar::Bool {
            let a = self.binary(a)?;
            let word = self.low(&a)?;
            return Ok(Sum::bit(self.not(word)));
        }
        if op == UnOp::Neg {
            let result = self.negate(a);
            return fits(result, ty);
        }
        if matches!(op, UnOp::Freeze | UnOp::StopGrad) {
            return Ok(a.clone());
        }
        Err(format!("`{}` has no form for bits", op.name()))
    }

    /// The lowest binary digit.
    pub(super) fn low(&mut self, a: &Sum) -> Result<Value, Refusal> {
        let mut word: Option<Value> = None;
        for bit in a.digits.first().into_iter().flatten() {
            word = Some(match word {
                Some(rest) => self.xor(rest, *bit),
                None => *bit,
            });
        }
        let word = match word {
            Some(word) => word,
            None => self.zeros(),
        };
        Ok(if a.offset & 1 == 1 {
            self.not(word)
        } else {
            word
        })
    }

    /// The sum over the elements of a word, as `i64`. The word has bits of other elements set to zero by the mask.
    pub(super) fn total(&mut self, a: &Sum, mask: Option<Value>) -> Value {
        let mut total = self.b.i64(0);
        let count = match mask {
            None => self.b.i64(self.bits.into()),
            Some(mask) => self.count(mask),
        };
        let offset = self.b.i64(a.offset as i64);
        let part = self.b.binary(BinOp::Mul, count, offset);
        total = self.b.binary(BinOp::Add, total, part);
        for (k, words) in a.digits.iter().enumerate() {
            for word in words {
                let word = match mask {
                    Some(mask) => self.and(*word, mask),
                    None => *word,
                };
                let count = self.count(word);
                let weight = self.b.i64(1 << k);
                let part = self.b.binary(BinOp::Mul, count, weight);
                total = self.b.binary(BinOp::Add, total, part);
            }
        }
        total
    }

    fn count(&mut self, word: Value) -> Value {
        let count = self.b.unary(UnOp::PopCount, word);
        self.b.convert(count, Scalar::I64)
    }

    // ---- coordinates ----

    /// A bit for each element whose coordinate is less than a constant.
    pub(super) fn lanes_below(&mut self, limit: i64) -> Value {
        // How many elements of this word are below.
        let n = self.b.i64(self.bits.into());
        let start = self.b.binary(BinOp::Mul, self.counter, n);
        // Far beyond all coordinates, and near enough that no difference wraps.
        let far = 1i64 << 62;
        let limit = self
            .b
            .i64(limit.saturating_sub(self.first).clamp(-far, far));
        let count = self.b.binary(BinOp::Sub, limit, start);
        let zero = self.b.i64(0);
        let none = self.b.compare(CmpOp::Le, count, zero);
        let all = self.b.compare(CmpOp::Ge, count, n);
        let by = self.b.convert(count, self.word);
        let one = self.b.int(self.word, 1);
        let bit = self.b.binary(BinOp::Shl, one, by);
        let below = self.b.binary(BinOp::Sub, bit, one);
        let (zeros, ones) = (self.zeros(), self.ones());
        let below = self.b.select(all, ones, below);
        self.b.select(none, zeros, below)
    }

    /// A comparison of the coordinate with a constant.
    pub(super) fn compare_index(&mut self, op: CmpOp, by: i64, value: i64) -> Result<Sum, Refusal> {
        let limit = value.checked_sub(by).filter(|l| l.checked_add(1).is_some());
        let limit = limit.ok_or("a coordinate is compared with a number that is too large")?;
        let word = match op {
            CmpOp::Lt => self.lanes_below(limit),
            CmpOp::Le => self.lanes_below(limit + 1),
            CmpOp::Ge => {
                let below = self.lanes_below(limit);
                self.not(below)
            }
            CmpOp::Gt => {
                let below = self.lanes_below(limit + 1);
                self.not(below)
            }
            CmpOp::Eq | CmpOp::Ne => {
                let (to, past) = (self.lanes_below(limit + 1), self.lanes_below(limit));
                let not_before = self.not(past);
                let equal = self.and(to, not_before);
                if op == CmpOp::Eq {
                    equal
                } else {
                    self.not(equal)
                }
            }
        };
        Ok(Sum::bit(word))
    }

    /// A lane as an integer for each element.
    pub(super) fn as_sum(&mut self, lane: &Lane) -> Result<Sum, Refusal> {
        match lane {
            Lane::Bits(sum) => Ok(sum.clone()),
            Lane::Const(imm) => match imm.as_int() {
                Some(value) => Ok(Sum::constant(value)),
                None => Err("there are floats".into()),
            },
            Lane::Uniform(v) if self.b.func.ty(*v).as_scalar() == Some(Scalar::Bool) => {
                let (ones, zeros) = (self.ones(), self.zeros());
                Ok(Sum::bit(self.b.value(Op::Select, &[*v, ones, zeros])))
            }
            Lane::Uniform(_) => Err("a number that is known at run time meets bits".into()),
            Lane::Index(_) | Lane::Periodic(_) => {
                Err("the coordinate along the bits is used as a number".into())
            }
        }
    }
}

/// Whether an integer fits its type: it does not wrap.
fn fits(sum: Sum, ty: Scalar) -> Result<Sum, Refusal> {
    match ty.int_range() {
        Some((lo, hi)) if sum.least >= lo && sum.most <= hi => Ok(sum),
        _ => Err(format!("an integer may not fit `{ty}`")),
    }
}
