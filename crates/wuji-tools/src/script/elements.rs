//! Reads and writes the elements of fields below sparse nodes by kernels: in the interpreter's bytes and on devices,
//! where only compiled code knows the address of a cell.

use super::check::WRONG;
use std::collections::BTreeMap;
use wuji_compile::{Lowered, Options};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::Module;
use wuji_ir::ops::Op;
use wuji_ir::transfer;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};
use wuji_runtime::{Collected, Device, Instance, ReportContext};

/// The active elements of a field, with their scalars.
pub type Cells = BTreeMap<Vec<i64>, Vec<Imm>>;

/// Fields whose elements may be inactive.
pub fn fields(m: &Module) -> Vec<Field> {
    let sparse = |f: &Field| {
        let data = &m.fields[*f];
        !m.trees[data.tree].sparse_path(data.node).is_empty() && has_contents(m, *f)
    };
    m.fields.keys().filter(sparse).collect()
}

/// Whether tests give and compare the elements of a field: not if those of other fields are the same memory. A word belongs to
/// its packed fields, a split field to its components.
pub fn has_contents(m: &Module, field: Field) -> bool {
    !is_word(m, field) && !m.fields[field].is_split()
}

/// Whether a field is the word of a packed one.
pub fn is_word(m: &Module, field: Field) -> bool {
    let packed = m.fields.values().filter_map(|f| f.packing.as_ref());
    packed
        .flat_map(|p| &p.members)
        .any(|member| member.word == field)
}

/// Whether the interpreter can run a module: not while it has tree accesses that are neither cell operations nor
/// lowered to loads and stores.
pub fn is_runnable(m: &Module, lowered: bool) -> bool {
    let lists = m.tasks.iter().any(|t| t.lists.is_some());
    let has_tree_accesses = m.funcs.values().any(|f| {
        let mut found = false;
        f.walk(|inst| found |= matches!(f.insts[inst].op, Op::TreeAccess(..)));
        found
    });
    !has_tree_accesses && (lowered || !lists)
}

/// The contents of the sparse fields of a machine that runs modules before lowering.
pub fn read(machine: &Machine<'_>) -> Result<Vec<(Field, Cells)>> {
    let mut out = Vec::new();
    for field in fields(machine.module()) {
        let mut cells = Cells::new();
        for at in machine.active(field)? {
            let values = machine.get(field, &at)?;
            cells.insert(at, values);
        }
        out.push((field, cells));
    }
    Ok(out)
}

/// Sets elements of the sparse fields of such a machine.
pub fn write(machine: &mut Machine<'_>, contents: &[(Field, Cells)]) -> Result<()> {
    for (field, cells) in contents {
        for (at, values) in cells {
            machine.set(*field, at, values)?;
        }
    }
    Ok(())
}

/// Runs the kernels that move elements.
trait Mover {
    fn bind(&mut self, array: Array, extents: &[i64], values: &[Imm]) -> Result<()>;
    fn run(&mut self) -> Result<()>;
    fn array(&self, array: Array) -> Result<Vec<Imm>>;
}

impl Mover for Machine<'_> {
    fn bind(&mut self, array: Array, extents: &[i64], values: &[Imm]) -> Result<()> {
        self.bind_values(array, extents, values)
    }

    fn run(&mut self) -> Result<()> {
        let outcome = Machine::run(self, &[])?;
        let collected = Collected {
            total: outcome.reports.len() as u64,
            reports: outcome.reports,
            ..Collected::default()
        };
        let context = ReportContext {
            module: self.module(),
            field_name: &|_| None,
            array_extents: &[],
        };
        collected.error(&context).map_or(Ok(()), Err)
    }

    fn array(&self, array: Array) -> Result<Vec<Imm>> {
        Ok(Machine::array(self, array))
    }
}

impl Mover for Instance<'_> {
    fn bind(&mut self, array: Array, extents: &[i64], values: &[Imm]) -> Result<()> {
        self.bind_values(array, extents, values)
    }

    fn run(&mut self) -> Result<()> {
        let (_, collected) = self.launch(&[], 0, 0)?;
        self.reported(&collected).map_or(Ok(()), Err)
    }

    fn array(&self, array: Array) -> Result<Vec<Imm>> {
        Instance::array(self, array)
    }
}

fn long(n: i64) -> Imm {
    Imm::int(Scalar::I64, i128::from(n))
}

fn import(
    to: &mut dyn Mover,
    m: &Module,
    fields: &[Field],
    contents: &[(Field, Cells)],
) -> Result<()> {
    for (k, field) in fields.iter().enumerate() {
        let none = Cells::new();
        let found = contents.iter().find(|c| c.0 == *field);
        let cells = found.map_or(&none, |c| &c.1);
        let rank = m.fields[*field].rank() as i64;
        let [coords, values, count] = transfer::arrays(k);
        let rows = cells.len() as i64;
        let at: Vec<Imm> = cells.keys().flatten().map(|c| long(*c)).collect();
        to.bind(coords, &[rows, rank], &at)?;
        let scalars: Vec<Imm> = cells.values().flatten().copied().collect();
        if scalars.is_empty() {
            to.bind(values, &[0], &[])?;
        } else {
            to.bind(values, &[rows], &scalars)?;
        }
        to.bind(count, &[0], &[])?;
    }
    to.run()
}

fn export(from: &mut dyn Mover, m: &Module, fields: &[Field]) -> Result<Vec<(Field, Cells)>> {
    let mut rooms = vec![0i64; fields.len()];
    loop {
        for (k, field) in fields.iter().enumerate() {
            let data = &m.fields[*field];
            let [coords, values, count] = transfer::arrays(k);
            let zeros = vec![long(0); rooms[k] as usize * data.rank()];
            from.bind(coords, &[rooms[k], data.rank() as i64], &zeros)?;
            let elem = m.structs.flatten(data.elem);
            let elem = if elem.is_empty() {
                vec![Scalar::U8]
            } else {
                elem
            };
            let zeros: Vec<Imm> = (0..rooms[k])
                .flat_map(|_| elem.iter().map(|s| Imm::zero(*s)))
                .collect();
            from.bind(values, &[rooms[k]], &zeros)?;
            from.bind(count, &[1], &[long(0)])?;
        }
        from.run()?;
        let mut fits = true;
        for (k, room) in rooms.iter_mut().enumerate() {
            let count = from.array(transfer::arrays(k)[2])?;
            let count = count.first().and_then(|c| c.as_int()).unwrap_or(0) as i64;
            fits &= count == *room;
            *room = count;
        }
        if fits {
            break;
        }
    }
    let mut out = Vec::new();
    for (k, field) in fields.iter().enumerate() {
        let data = &m.fields[*field];
        let [coords, values, _] = transfer::arrays(k);
        let at: Vec<i64> = from
            .array(coords)?
            .iter()
            .map(|c| c.as_int().unwrap_or(0) as i64)
            .collect();
        let values = from.array(values)?;
        let width = m.structs.flatten(data.elem).len();
        let mut cells = Cells::new();
        for row in 0..rooms[k] as usize {
            let at = at[row * data.rank()..][..data.rank()].to_vec();
            let scalars = values.get(row * width..(row + 1) * width);
            if cells
                .insert(at.clone(), scalars.unwrap_or(&[]).to_vec())
                .is_some()
            {
                let why = format!("a loop over {field} visits {at:?} twice");
                return Err(
                    Error::new(WRONG, why).note("this is a bug in the compiler, not in the kernel")
                );
            }
        }
        out.push((*field, cells));
    }
    Ok(out)
}

/// Options for kernels that move elements: they list them in any order, in deterministic worlds too. What they list is sorted.
fn any_order(options: &Options) -> Options {
    Options {
        deterministic: false,
        ..options.clone()
    }
}

/// The kernels that move the elements of all sparse fields of a module, lowered, for the interpreter.
#[derive(Debug)]
pub struct LoweredMovers {
    fields: Vec<Field>,
    import: Lowered,
    export: Lowered,
}

impl LoweredMovers {
    /// The kernels for a module.
    pub fn new(m: &Module, options: &Options) -> Result<LoweredMovers> {
        let fields = fields(m);
        Ok(LoweredMovers {
            import: wuji_compile::compile(transfer::import(m, &fields), &any_order(options))?,
            export: wuji_compile::compile(transfer::export(m, &fields), &any_order(options))?,
            fields,
        })
    }

    /// Sets elements in a machine that runs a lowered module.
    pub fn write(&self, machine: &mut Machine<'_>, contents: &[(Field, Cells)]) -> Result<()> {
        let mut mover = Machine::lowered(self.import.module(), Config::default())?;
        hand_over(machine, &mut mover)?;
        import(&mut mover, machine.module(), &self.fields, contents)?;
        hand_over(&mut mover, machine)
    }

    /// The elements in a machine that runs a lowered module.
    pub fn read(&self, machine: &mut Machine<'_>) -> Result<Vec<(Field, Cells)>> {
        let mut mover = Machine::lowered(self.export.module(), Config::default())?;
        hand_over(machine, &mut mover)?;
        let found = export(&mut mover, machine.module(), &self.fields)?;
        hand_over(&mut mover, machine)?;
        Ok(found)
    }
}

/// Both have the same trees.
fn hand_over(from: &mut Machine<'_>, to: &mut Machine<'_>) -> Result<()> {
    for tree in from.module().trees.keys() {
        to.put_tree(tree, from.take_tree(tree))?;
    }
    Ok(())
}

/// The same on a device.
#[derive(Debug)]
pub struct DeviceMovers<'d> {
    fields: Vec<Field>,
    import: Instance<'d>,
    export: Instance<'d>,
}

impl<'d> DeviceMovers<'d> {
    /// The kernels for a module.
    pub fn new(device: &'d Device, m: &Module, options: &Options) -> Result<DeviceMovers<'d>> {
        let fields = fields(m);
        Ok(DeviceMovers {
            import: Instance::new(device, transfer::import(m, &fields), &any_order(options))?,
            export: Instance::new(device, transfer::export(m, &fields), &any_order(options))?,
            fields,
        })
    }

    /// Sets elements in an instance.
    pub fn write(
        &mut self,
        instance: &mut Instance<'_>,
        contents: &[(Field, Cells)],
    ) -> Result<()> {
        self.import.swap_trees(instance)?;
        let m = instance.module();
        let done = import(&mut self.import, m, &self.fields, contents);
        self.import.swap_trees(instance)?;
        done
    }

    /// The elements in an instance.
    pub fn read(&mut self, instance: &mut Instance<'_>) -> Result<Vec<(Field, Cells)>> {
        self.export.swap_trees(instance)?;
        let found = export(&mut self.export, instance.module(), &self.fields);
        self.export.swap_trees(instance)?;
        found
    }
}
