//! `match` and other patterns that a value may match or not.

use super::MISTAKE;
use super::binding::Val;
use super::body::Body;
use crate::lang::ast::{Arm, At, Choice, Expr, Kind, Node, Unary};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp};
use wuji_ir::types::Imm;

/// A part of a value that a pattern gives a name.
struct NamedPart {
    var: u32,
    mutable: bool,
    val: Val,
}

/// Whether a pattern binds names.
fn has_names(pat: &Choice) -> bool {
    match pat {
        Choice::Any | Choice::Value(_) | Choice::Range(..) => false,
        Choice::Bind(..) => true,
        Choice::Variant(_, fields) => fields.iter().any(|f| has_names(&f.1)),
        Choice::Or(choices) => choices.iter().any(has_names),
    }
}

impl Body<'_, '_> {
    pub(super) fn match_expr(&mut self, at: At, value: Node, arms: &'static [Arm]) -> Result<Val> {
        let val = self.expr(value)?;
        match val {
            Val::Never => Ok(Val::Never),
            val => self.arms(at, &val, arms),
        }
    }

    fn arms(&mut self, at: At, val: &Val, arms: &'static [Arm]) -> Result<Val> {
        let Some((arm, rest)) = arms.split_first() else {
            return Ok(Val::Unit);
        };
        self.deeper(at, |b| {
            // rustc has checked that the arms cover everything, so the last one needs no question.
            if rest.is_empty() && arm.guard.is_none() {
                b.bind_choice(at, &arm.pat, val)?;
                return b.expr(&arm.body);
            }
            let cond = match b.matches(at, &arm.pat, val)? {
                Some(cond) => cond,
                None => b.imm(Imm::bool(true)),
            };
            let cond = match arm.guard {
                Some(guard) => {
                    let passed = b.branch(
                        cond,
                        |b| {
                            b.bind_choice(at, &arm.pat, val)?;
                            b.expr(guard)
                        },
                        |b| Ok(Val::Value(b.imm(Imm::bool(false)))),
                    )?;
                    match passed {
                        Val::Value(c) => c,
                        _ => return Ok(Val::Never),
                    }
                }
                None => cond,
            };
            let body = |b: &mut Self| {
                b.bind_choice(at, &arm.pat, val)?;
                b.expr(&arm.body)
            };
            match b.constant(cond).and_then(Imm::as_bool) {
                Some(true) => body(b),
                Some(false) => b.arms(at, val, rest),
                None => b.branch(cond, body, |b| b.arms(at, val, rest)),
            }
        })
    }

    /// `let pattern = value else { .. };`
    pub(super) fn let_else(
        &mut self,
        at: At,
        pat: &'static Choice,
        value: Node,
        other: Node,
    ) -> Result<Val> {
        let val = self.expr(value)?;
        if let Val::Never = val {
            return Ok(Val::Never);
        }
        self.at(at);
        if let Some(cond) = self.matches(at, pat, &val)? {
            self.branch(cond, |_| Ok(Val::Unit), |b| b.expr(other))?;
        }
        self.bind_choice(at, pat, &val)?;
        Ok(Val::Unit)
    }

    /// Whether a value matches a pattern; `None` if it always does.
    fn matches(&mut self, at: At, pat: &'static Choice, val: &Val) -> Result<Option<Value>> {
        match pat {
            Choice::Any => Ok(None),
            Choice::Bind(_, _, inner) => self.matches(at, inner, val),
            Choice::Value(e) => {
                let v = self.matched(at, val)?;
                let c = self.pattern_value(e, v)?;
                match self.tag_of(v) {
                    Some(tag) => {
                        let other = self.extract(c, 0);
                        Ok(Some(self.compare(CmpOp::Eq, tag, other)))
                    }
                    None => Ok(Some(self.compare(CmpOp::Eq, v, c))),
                }
            }
            Choice::Range(low, high, inclusive) => {
                let v = self.matched(at, val)?;
                self.in_range(v, low, high, *inclusive).map(Some)
            }
            Choice::Or(choices) => {
                let mut any: Option<Value> = None;
                for choice in *choices {
                    let Some(one) = self.matches(at, choice, val)? else {
                        return Ok(None);
                    };
                    any = Some(match any {
                        Some(c) => self.binary(BinOp::Or, c, one),
                        None => one,
                    });
                }
                Ok(any)
            }
            Choice::Variant(name, fields) => {
                let mut all = self.is_variant(at, val, name)?;
                for (field, inner) in *fields {
                    let part = self.matched_part(at, val, name, field)?;
                    let Some(one) = self.matches(at, inner, &part)? else {
                        continue;
                    };
                    all = Some(match all {
                        Some(c) => self.binary(BinOp::And, c, one),
                        None => one,
                    });
                }
                Ok(all)
            }
        }
    }

    /// Binds the names of a pattern that a value matches.
    fn bind_choice(&mut self, at: At, pat: &'static Choice, val: &Val) -> Result<()> {
        let mut names = Vec::new();
        self.named_parts(at, pat, val, &mut names)?;
        for n in names {
            self.bind_name(at, n.var, n.mutable, n.val)?;
        }
        Ok(())
    }

    fn named_parts(
        &mut self,
        at: At,
        pat: &'static Choice,
        val: &Val,
        out: &mut Vec<NamedPart>,
    ) -> Result<()> {
        match pat {
            Choice::Any | Choice::Value(_) | Choice::Range(..) => Ok(()),
            Choice::Bind(var, mutable, inner) => {
                out.push(NamedPart {
                    var: *var,
                    mutable: *mutable,
                    val: val.clone(),
                });
                self.named_parts(at, inner, val, out)
            }
            Choice::Variant(name, fields) => {
                for (field, inner) in *fields {
                    if has_names(inner) {
                        let part = self.matched_part(at, val, name, field)?;
                        self.named_parts(at, inner, &part, out)?;
                    }
                }
                Ok(())
            }
            Choice::Or(choices) => self.parts_of_alternatives(at, choices, val, out),
        }
    }

    /// The names of patterns with `|` between them: their values are those of the first pattern that the value matches.
    fn parts_of_alternatives(
        &mut self,
        at: At,
        choices: &'static [Choice],
        val: &Val,
        out: &mut Vec<NamedPart>,
    ) -> Result<()> {
        let Some((last, before)) = choices.split_last() else {
            return Ok(());
        };
        if !has_names(last) {
            return Ok(());
        }
        let mut parts = Vec::new();
        self.named_parts(at, last, val, &mut parts)?;
        for choice in before.iter().rev() {
            let cond = self.matches(at, choice, val)?;
            let mut own = Vec::new();
            self.named_parts(at, choice, val, &mut own)?;
            for part in &mut parts {
                let Some(other) = own.iter().find(|o| o.var == part.var) else {
                    continue;
                };
                part.val = match (cond, &other.val, &part.val) {
                    (Some(cond), Val::Value(a), Val::Value(b)) => {
                        Val::Value(self.select(cond, *a, *b))
                    }
                    (None, val, _) => val.clone(),
                    (Some(_), ..) => return Err(self.no_array(at)),
                };
            }
        }
        out.append(&mut parts);
        Ok(())
    }

    fn matched(&self, at: At, val: &Val) -> Result<Value> {
        match val {
            Val::Value(v) => Ok(*v),
            Val::Unit | Val::Never | Val::Array(_) => Err(self.no_array(at)),
        }
    }

    /// A field of what a pattern takes apart.
    fn matched_part(&mut self, at: At, val: &Val, variant: &str, field: &str) -> Result<Val> {
        match (val, field.parse::<usize>()) {
            (Val::Array(array), Ok(k)) => self.array_item(at, array, k),
            (Val::Value(v), _) => {
                let k = self.field_of(at, self.ty(*v), variant, field)?;
                Ok(Val::Value(self.extract(*v, k)))
            }
            _ => Err(self.no_array(at)),
        }
    }

    fn in_range(
        &mut self,
        v: Value,
        low: &'static Option<Expr>,
        high: &'static Option<Expr>,
        inclusive: bool,
    ) -> Result<Value> {
        let mut cond = self.imm(Imm::bool(true));
        if let Some(low) = low {
            let c = self.pattern_value(low, v)?;
            cond = self.compare(CmpOp::Ge, v, c);
        }
        if let Some(high) = high {
            let c = self.pattern_value(high, v)?;
            let op = if inclusive { CmpOp::Le } else { CmpOp::Lt };
            let below = self.compare(op, v, c);
            cond = match low {
                Some(_) => self.binary(BinOp::And, cond, below),
                None => below,
            };
        }
        Ok(cond)
    }

    /// A constant of a pattern, of the type of the value it is compared with.
    fn pattern_value(&mut self, e: &'static Expr, like: Value) -> Result<Value> {
        let ty = self.ty(like);
        match &e.kind {
            Kind::Int(digits, _) => self.int_literal(e.at, digits, ty),
            Kind::Float(digits, _) => self.float_literal(e.at, digits, ty),
            Kind::Unary(Unary::Neg, inner) => {
                let v = self.pattern_value(inner, like)?;
                Ok(self.negate(v))
            }
            _ => match self.value(e)? {
                Some(v) => Ok(v),
                None => Err(self.fail(e.at, MISTAKE, "this has no value")),
            },
        }
    }
}
