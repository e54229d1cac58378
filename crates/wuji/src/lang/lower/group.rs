//! Bundles of fields and arrays of fields: what kernels get as one argument, and use member by member.

use super::MISTAKE;
use super::binding::{ArrayVal, Binding, Data, Group, Val};
use super::body::Body;
use crate::lang::ast::{At, Expr, Kind, Param, ParamKind};
use crate::lang::recording::{Bound, TypeTag};
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities::Value;

/// The arguments of a kernel that no parameter has taken yet.
pub(super) struct Arguments<'b> {
    values: std::vec::IntoIter<Value>,
    bounds: std::slice::Iter<'b, Bound>,
}

impl<'b> Arguments<'b> {
    pub(super) fn new(values: Vec<Value>, bounds: &'b [Bound]) -> Arguments<'b> {
        Arguments {
            values: values.into_iter(),
            bounds: bounds.iter(),
        }
    }
}

/// What a parameter of a kernel is.
pub(super) enum Argument {
    Value(Val),
    Data(Binding),
}

impl Body<'_, '_> {
    /// The argument for a parameter of the kernel.
    pub(super) fn argument(
        &mut self,
        param: &'static Param,
        rest: &mut Arguments<'_>,
    ) -> Result<Argument> {
        match param.kind {
            ParamKind::Value(_) | ParamKind::Data => self.leaf(param.at, rest),
            ParamKind::Exclusive(_) | ParamKind::Closure => {
                Err(self.fail(param.at, MISTAKE, "a kernel takes values and data"))
            }
            ParamKind::Bundle(number) => {
                let tag = self.tag(param.at, number)?;
                self.tree(param.at, &tag, rest)
            }
        }
    }

    fn leaf(&mut self, at: At, rest: &mut Arguments<'_>) -> Result<Argument> {
        let data = match rest.bounds.next() {
            Some(Bound::Value) => match rest.values.next() {
                Some(value) => return Ok(Argument::Value(Val::Value(value))),
                None => None,
            },
            Some(Bound::World) => Some(Data::World),
            Some(Bound::Field(f)) => Some(Data::Field(*f)),
            Some(Bound::Array(a)) => Some(Data::Array(*a)),
            None => None,
        };
        match data {
            Some(data) => Ok(Argument::Data(Binding::Data(data))),
            None => Err(self.fail(at, MISTAKE, "an argument is missing")),
        }
    }

    /// A member of a bundle, or a whole one, from its arguments.
    fn tree(&mut self, at: At, tag: &TypeTag, rest: &mut Arguments<'_>) -> Result<Argument> {
        match tag {
            TypeTag::Unit => Ok(Argument::Value(Val::Unit)),
            TypeTag::Element(_) | TypeTag::Data => self.leaf(at, rest),
            TypeTag::Array(part, n) if part.is_value() => {
                let mut items = Vec::new();
                for _ in 0..*n {
                    match self.tree(at, part, rest)? {
                        Argument::Value(val) => items.push(val),
                        Argument::Data(_) => return Err(self.no_array(at)),
                    }
                }
                Ok(Argument::Value(Val::Array(ArrayVal::Items(items))))
            }
            TypeTag::Array(part, n) => {
                let mut items = Vec::new();
                for _ in 0..*n {
                    items.push(self.member(at, part, rest)?);
                }
                Ok(Argument::Data(Binding::Group(Arc::new(Group::List(items)))))
            }
            TypeTag::Bundle(members) => {
                let mut bound = Vec::new();
                for (name, tag) in members {
                    bound.push((*name, self.member(at, tag, rest)?));
                }
                Ok(Argument::Data(Binding::Group(Arc::new(Group::Bundle(
                    bound,
                )))))
            }
        }
    }

    fn member(&mut self, at: At, tag: &TypeTag, rest: &mut Arguments<'_>) -> Result<Binding> {
        match self.tree(at, tag, rest)? {
            Argument::Data(binding) => Ok(binding),
            Argument::Value(val) => self.kept(at, val),
        }
    }

    /// A value in a bundle. Arrays stay a list of their items, which every parallel loop can use.
    fn kept(&mut self, at: At, val: Val) -> Result<Binding> {
        match val {
            Val::Unit | Val::Never => Ok(Binding::Unit),
            Val::Value(v) => Ok(Binding::Value(v)),
            Val::Array(array) => {
                let items = self.array_items(at, &array)?.into_iter();
                let items: Result<Vec<Binding>> = items.map(|v| self.kept(at, v)).collect();
                Ok(Binding::Group(Arc::new(Group::List(items?))))
            }
        }
    }

    /// What kind of thing an expression refers to in a group: the first item stands for all of an array.
    pub(super) fn part_of_group(&self, e: &'static Expr) -> Option<&Binding> {
        match &e.kind {
            Kind::Var(var) => self.frame().vars.get(*var as usize)?.as_ref(),
            Kind::Field(base, name) => match self.part_of_group(base)? {
                Binding::Group(group) => group.named(name),
                _ => None,
            },
            Kind::Index(base, _) => match self.part_of_group(base)? {
                Binding::Group(group) => group.item(0),
                _ => None,
            },
            _ => None,
        }
    }

    /// What an expression refers to, if it is in a group.
    pub(super) fn in_group(&mut self, e: &'static Expr) -> Result<Option<Binding>> {
        match &e.kind {
            Kind::Var(var) => Ok(self.frame().vars.get(*var as usize).cloned().flatten()),
            Kind::Field(base, name) if self.is_group(base) => {
                let group = self.in_group(base)?;
                match group {
                    Some(Binding::Group(group)) => Ok(group.named(name).cloned()),
                    _ => Ok(None),
                }
            }
            Kind::Index(base, indices) if self.is_group(base) => {
                // Items of an array of values can be found at run time.
                if self.part_of_group(base).and_then(values_of).is_some() {
                    return Ok(None);
                }
                let Some(Binding::Group(group)) = self.in_group(base)? else {
                    return Ok(None);
                };
                let k = self.constant_index(e.at, indices)?;
                match usize::try_from(k).ok().and_then(|k| group.item(k)) {
                    Some(item) => Ok(Some(item.clone())),
                    None => Err(self.outside(e.at, k, group.len())),
                }
            }
            _ => Ok(None),
        }
    }

    fn is_group(&self, e: &'static Expr) -> bool {
        matches!(self.part_of_group(e), Some(Binding::Group(_)))
    }

    /// The index of an array of fields.
    fn constant_index(&mut self, at: At, indices: &'static [Expr]) -> Result<i128> {
        let values = self.values(indices)?.unwrap_or_default();
        match values[..] {
            [k] if self.known(k).is_some() => Ok(self.known(k).unwrap_or(0)),
            _ => Err(self
                .fail(at, "W0243", "the index of an array of fields must be a constant")
                .note("which field is accessed is decided when the kernel is compiled")
                .help("loop over the fields with `for k in unroll(0..n)`, or use one field with one more axis")),
        }
    }

    /// A field, an array or a bundle, as an expression names it.
    pub(super) fn data_binding(&mut self, e: &'static Expr) -> Result<Binding> {
        let found = self.in_group(e)?;
        found.ok_or_else(|| self.fail(e.at, MISTAKE, "a field or array is passed by its name"))
    }

    /// The same where it may also be a value, as a member of a bundle.
    pub(super) fn named_binding(&mut self, e: &'static Expr) -> Result<Binding> {
        if let Some(binding) = self.in_group(e)? {
            return Ok(binding);
        }
        let val = self.expr(e)?;
        self.kept(e.at, val)
    }

    /// The field or array that an expression names.
    pub(super) fn data_at(&mut self, e: &'static Expr) -> Result<Data> {
        match self.data_binding(e)? {
            Binding::Data(data) => Ok(data),
            _ => Err(self.fail(e.at, MISTAKE, "this is not a field or array")),
        }
    }
}

/// The values of a member, if it has values only.
pub(super) fn values_of(binding: &Binding) -> Option<Val> {
    match binding {
        Binding::Value(v) => Some(Val::Value(*v)),
        Binding::Group(group) => match &**group {
            Group::List(items) => {
                let items: Option<Vec<Val>> = items.iter().map(values_of).collect();
                Some(Val::Array(ArrayVal::Items(items?)))
            }
            Group::Bundle(_) => None,
        },
        _ => None,
    }
}

impl Group {
    fn named(&self, name: &str) -> Option<&Binding> {
        match self {
            Group::Bundle(members) => members.iter().find(|m| m.0 == name).map(|m| &m.1),
            Group::List(_) => None,
        }
    }

    fn item(&self, k: usize) -> Option<&Binding> {
        match self {
            Group::Bundle(_) => None,
            Group::List(items) => items.get(k),
        }
    }

    fn len(&self) -> usize {
        match self {
            Group::Bundle(members) => members.len(),
            Group::List(items) => items.len(),
        }
    }
}
