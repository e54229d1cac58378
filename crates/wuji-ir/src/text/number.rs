//! Dense numbering of the entities of a function, and the normal form.
//!
//! The order is that of the text: an instruction, its results, then region by region the region's parameters
//! and instructions. Printing uses the numbers; [`Function::compacted`] renumbers everything, so that a
//! module parsed from its text is equal to the compacted original.

use crate::entities::*;
use crate::module::*;
use cranelift_entity::packed_option::{PackedOption, ReservedValue};
use cranelift_entity::{EntityRef, SecondaryMap};
use rustc_hash::FxHashMap;

/// New numbers of the entities that a function's body reaches.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    values: SecondaryMap<Value, PackedOption<Value>>,
    regions: SecondaryMap<Region, PackedOption<Region>>,
    labels: FxHashMap<Label, Label>,
    /// In the new order.
    insts: Vec<Inst>,
    region_order: Vec<Region>,
    value_order: Vec<Value>,
}

impl Numbering {
    pub(crate) fn of(f: &Function) -> Numbering {
        let mut n = Numbering::default();
        let mut stack = vec![(f.entry, 0usize)];
        let mut seen: SecondaryMap<Inst, bool> = SecondaryMap::new();
        while let Some((region, at)) = stack.pop() {
            if at == 0 {
                n.enter(f, region);
            }
            let Some(&inst) = f.regions.get(region).and_then(|r| r.insts.get(at)) else {
                continue;
            };
            stack.push((region, at + 1));
            let Some(data) = f.insts.get(inst).filter(|_| !seen[inst]) else {
                continue;
            };
            seen[inst] = true;
            n.insts.push(inst);
            data.results.iter().for_each(|v| n.define(f, *v));
            if let Some(label) = data.op.label() {
                let fresh = Label::new(n.labels.len());
                n.labels.entry(label).or_insert(fresh);
            }
            for r in data.regions.iter().rev() {
                stack.push((*r, 0));
            }
        }
        n
    }

    fn enter(&mut self, f: &Function, region: Region) {
        if self.regions[region].is_some() {
            return;
        }
        let Some(data) = f.regions.get(region) else {
            return;
        };
        self.regions[region] = Region::new(self.region_order.len()).into();
        self.region_order.push(region);
        data.params.iter().for_each(|v| self.define(f, *v));
    }

    fn define(&mut self, f: &Function, value: Value) {
        if f.values.is_valid(value) && self.values[value].is_none() {
            self.values[value] = Value::new(self.value_order.len()).into();
            self.value_order.push(value);
        }
    }

    /// The new number; `None` for a value that nothing in the body defines.
    pub(crate) fn value(&self, value: Value) -> Option<Value> {
        self.values[value].expand()
    }

    pub(crate) fn label(&self, label: Label) -> Option<Label> {
        self.labels.get(&label).copied()
    }
}

impl Function {
    /// The same function without unreachable entities, numbered in the order of the text.
    pub fn compacted(&self) -> Function {
        let n = Numbering::of(self);
        // Undefined entities of an invalid function stay undefined.
        let value = |v: &Value| n.value(*v).unwrap_or(Value::reserved_value());
        let label = |l: Label| n.label(l).unwrap_or(Label::reserved_value());
        let region = |r: &Region| n.regions[*r].expand().unwrap_or(Region::reserved_value());
        let mut inst_numbers: SecondaryMap<Inst, PackedOption<Inst>> = SecondaryMap::new();
        for (k, inst) in n.insts.iter().enumerate() {
            inst_numbers[*inst] = Inst::new(k).into();
        }
        let inst = |i: &Inst| inst_numbers[*i].expand().unwrap_or(Inst::reserved_value());

        let mut out = Function::new(self.name.clone(), &[], &self.results);
        out.traits = self.traits;
        out.reverse = self.reverse;
        out.regions.clear();
        out.locals = self.locals.clone();
        out.labels = n.labels.len() as u32;
        for old in &n.insts {
            let data = &self.insts[*old];
            let mut op = data.op.clone();
            if let Some(l) = op.label() {
                op.set_label(label(l));
            }
            let new = out.insts.push(InstData {
                op,
                args: data.args.iter().map(value).collect(),
                regions: data.regions.iter().map(region).collect(),
                results: data.results.iter().map(value).collect(),
            });
            if self.spans[*old].is_known() {
                out.spans[new] = self.spans[*old];
            }
        }
        for old in &n.region_order {
            let data = &self.regions[*old];
            let values = |v: &Values| -> Values { v.iter().map(value).collect() };
            out.regions.push(RegionData {
                params: values(&data.params),
                insts: data.insts.iter().map(inst).collect(),
                term: match &data.term {
                    Term::Yield(v) => Term::Yield(values(v)),
                    Term::Break(l, v) => Term::Break(label(*l), values(v)),
                    Term::Continue(l, v) => Term::Continue(label(*l), values(v)),
                    Term::Return(v) => Term::Return(values(v)),
                    Term::Unreachable => Term::Unreachable,
                },
                term_span: if data.term_span.is_known() {
                    data.term_span
                } else {
                    Span::UNKNOWN
                },
            });
        }
        for old in &n.value_order {
            let data = &self.values[*old];
            out.values.push(ValueData {
                ty: data.ty,
                def: match data.def {
                    ValueDef::Result(i, k) => ValueDef::Result(inst(&i), k),
                    ValueDef::Param(r, k) => ValueDef::Param(region(&r), k),
                },
            });
        }
        out
    }
}

impl Module {
    /// The normal form that parsing a printed module gives: functions are [compacted](Function::compacted),
    /// adjacent text pieces of messages are merged, and unknown positions are equal.
    pub fn compacted(&self) -> Module {
        let mut out = self.clone();
        let files = self.files.len();
        let known = |s: Span| {
            if s.is_known() && s.file.index() < files {
                s
            } else {
                Span::UNKNOWN
            }
        };
        for f in out.funcs.values_mut() {
            *f = f.compacted();
            for inst in f.insts.keys() {
                if f.spans[inst].is_known() {
                    f.spans[inst] = known(f.spans[inst]);
                }
            }
            for r in f.regions.values_mut() {
                r.term_span = known(r.term_span);
            }
        }
        for site in out.sites.values_mut() {
            site.span = known(site.span);
        }
        for task in &mut out.tasks {
            task.span = known(task.span);
        }
        for message in out.messages.values_mut() {
            *message = message.merged();
        }
        out
    }
}

impl MessageData {
    /// Without empty or adjacent texts.
    fn merged(&self) -> MessageData {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in &self.pieces {
            match (piece, pieces.last_mut()) {
                (Piece::Text(t), _) if t.is_empty() => {}
                (Piece::Text(t), Some(Piece::Text(last))) => last.push_str(t),
                _ => pieces.push(piece.clone()),
            }
        }
        MessageData { pieces }
    }
}
