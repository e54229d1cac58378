//! Verifies split fields: every component is a field of its type, with the same coordinates.

use crate::diag::{Error, Result};
use crate::entities::Field;
use crate::layout::FieldData;
use crate::module::Module;

fn wrong(field: Field, why: impl std::fmt::Display) -> Error {
    Error::new("W0023", format!("split field {field}: {why}"))
}

pub(super) fn fields(m: &Module) -> Result<()> {
    let split = || m.fields.iter().filter(|(_, f)| f.is_split());
    for (id, data) in split() {
        field(m, id, data)?;
    }
    // A component has a smaller type than the whole, so there are no cycles now.
    match split().find(|(id, data)| m.fields[m.lead(*id)].node != data.node) {
        Some((id, _)) => Err(wrong(id, "it is not in the node of its first component")),
        None => Ok(()),
    }
}

fn field(m: &Module, id: Field, data: &FieldData) -> Result<()> {
    if data.packing.is_some() {
        return Err(wrong(id, "it is packed as well"));
    }
    let types = m.structs.components(data.elem);
    if types.len() != data.components.len() {
        let (n, have) = (types.len(), data.components.len());
        return Err(wrong(id, format!("{n} components have {have} fields")));
    }
    for (component, ty) in data.components.iter().zip(types) {
        let Some(part) = m.fields.get(*component) else {
            return Err(wrong(id, format!("{component} is not defined")));
        };
        if part.elem != ty {
            let (found, name) = (part.elem, component);
            let why = format!("a component is `{ty}`, but {name} has elements `{found}`");
            return Err(wrong(id, why));
        }
        if part.tree != data.tree {
            return Err(wrong(id, format!("{component} is in another tree")));
        }
        if part.axes != data.axes || part.domain(&m.trees) != data.domain(&m.trees) {
            let why = format!("{component} has elements at other coordinates");
            return Err(wrong(id, why));
        }
    }
    Ok(())
}
