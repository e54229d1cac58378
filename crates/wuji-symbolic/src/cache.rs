//! Analyses in the kernel cache of a world, by the trace that they belong to.
//!
//! The code of a program is cached like that of any kernel. With its analysis, only the trace itself is recorded again.

use crate::arena::Node;
use crate::bytes::{Read, Reader, put, put_nodes, put_numbers};
use crate::pipeline::group::Source;
use crate::pipeline::harvest::Template;
use crate::pipeline::place::{GroupLoop, Index, Tables, Write};
use crate::pipeline::{Analysis, Options, analyze, place};
use crate::trace::Trace;
use wuji::World;
use wuji_ir::Result;

/// The analysis of a trace, from the cache if it is there, and whether it is.
pub(crate) fn analysis(
    world: &World,
    trace: &Trace,
    options: &Options,
) -> Result<(Analysis, bool)> {
    if world.cache().is_none() {
        return Ok((analyze(trace, options)?, false));
    }
    let key = key(trace, options);
    if let Some(known) = world.cached_data(&key, |bytes| decode(bytes, trace)) {
        return Ok((known, true));
    }
    let analysis = analyze(trace, options)?;
    world.cache_data(&key, || encode(&analysis));
    Ok((analysis, false))
}

/// Everything that affects the analysis. A trace counts by its digest of 128 bits: it may have gigabytes.
fn key(trace: &Trace, options: &Options) -> String {
    let (version, build) = (env!("CARGO_PKG_VERSION"), env!("WUJI_SYMBOLIC_BUILD"));
    let [a, b] = trace.digest();
    let nodes = trace.arena.len();
    format!("traced program {version} {build}\n{a:016x}{b:016x} of {nodes} nodes\n{options:?}")
}

fn encode(analysis: &Analysis) -> Vec<u8> {
    let Analysis {
        groups,
        tables,
        intermediates,
        inputs,
        outputs,
        dissolved_blocks,
        nodes,
        local_decomposition,
    } = analysis;
    let mut bytes =
        Vec::with_capacity(4 * tables.indices.len() + 8 * tables.constants.len() + 4096);
    put_numbers(&mut bytes, inputs.iter().copied());
    put_numbers(&mut bytes, outputs.iter().copied());
    put(&mut bytes, *intermediates as u32);
    put(&mut bytes, *dissolved_blocks as u32);
    put(&mut bytes, *nodes as u32);
    put(&mut bytes, u32::from(*local_decomposition));
    put_numbers(&mut bytes, tables.indices.iter().map(|n| *n as u32));
    let bits = tables.constants.iter().map(|c| c.to_bits());
    put(&mut bytes, tables.constants.len() as u32);
    bits.for_each(|b| bytes.extend_from_slice(&b.to_le_bytes()));
    put(&mut bytes, groups.len() as u32);
    groups.iter().for_each(|group| put_group(&mut bytes, group));
    bytes
}

fn put_group(bytes: &mut Vec<u8>, group: &GroupLoop) {
    let GroupLoop {
        level,
        members,
        template,
        locals,
        reads,
        writes,
    } = group;
    put(bytes, *level);
    put(bytes, *members);
    put_nodes(bytes, &template.arena);
    put_numbers(bytes, template.roots.iter().map(|id| id.0));
    bytes.extend(locals.iter().map(|kept| u8::from(*kept)));
    put(bytes, reads.len() as u32);
    for read in reads {
        put(bytes, read.slot);
        put(bytes, read.source.number());
        put_index(bytes, read.index);
    }
    for write in writes {
        put(bytes, write.to.number());
        put_index(bytes, write.index);
    }
}

fn put_index(bytes: &mut Vec<u8>, index: Index) {
    let numbers = match index {
        Index::Affine { first, stride } => [0, first as u32, stride as u32],
        Index::Table { start, offset } => [1, start as u32, offset as u32],
    };
    numbers.into_iter().for_each(|n| put(bytes, n));
}

/// The analysis of a trace, or the reason why it is unusable.
fn decode(bytes: &[u8], trace: &Trace) -> Read<Analysis> {
    let mut reader = Reader(bytes);
    let (inputs, outputs) = (reader.numbers()?, reader.numbers()?);
    let expected = trace.outputs.iter().map(|o| o.len() as u32);
    if inputs != trace.inputs || !outputs.iter().copied().eq(expected) {
        return Err("it belongs to another trace".into());
    }
    let mut number = || Ok::<usize, String>(reader.number()? as usize);
    let (intermediates, dissolved_blocks) = (number()?, number()?);
    let (nodes, local_decomposition) = (number()?, number()? == 1);
    let indices = reader.numbers()?.into_iter().map(|n| n as i32).collect();
    let tables = Tables {
        indices,
        constants: constants(&mut reader)?,
    };
    let mut analysis = Analysis {
        groups: Vec::new(),
        tables,
        intermediates,
        inputs,
        outputs,
        dissolved_blocks,
        nodes,
        local_decomposition,
    };
    for _ in 0..reader.number()? {
        let group = group(&mut reader, &analysis)?;
        analysis.groups.push(group);
    }
    if !reader.0.is_empty() || intermediates > i32::MAX as usize {
        return Err("its contents are inconsistent".into());
    }
    Ok(analysis)
}

fn constants(reader: &mut Reader<'_>) -> Read<Vec<f64>> {
    let count = reader.number()? as usize;
    let bytes = reader.bytes(count.saturating_mul(8))?;
    let number = |chunk: &[u8]| {
        let mut own = [0; 8];
        own.copy_from_slice(chunk);
        f64::from_le_bytes(own)
    };
    Ok(bytes.chunks_exact(8).map(number).collect())
}

fn group(reader: &mut Reader<'_>, analysis: &Analysis) -> Read<GroupLoop> {
    let (level, members) = (reader.number()?, reader.number()?);
    let arena = reader.nodes(&[u32::MAX])?;
    let roots = reader.ids(arena.len())?;
    let locals: Vec<bool> = (reader.bytes(arena.len())?.iter())
        .map(|kept| *kept != 0)
        .collect();
    let mut reads = Vec::new();
    for _ in 0..reader.number()? {
        let (slot, source) = (reader.number()?, source(reader, analysis)?);
        let index = index(reader, analysis, source, members)?;
        reads.push(place::Read {
            slot,
            source,
            index,
        });
    }
    let mut writes = Vec::new();
    for root in &roots {
        let to = source(reader, analysis)?;
        let index = index(reader, analysis, to, members)?;
        if to == Source::Constant || !arena.op(*root).is_number() {
            return Err("one of its stores is inconsistent".into());
        }
        writes.push(Write { to, index });
    }
    let is_read = |slot: u32| reads.iter().any(|read| read.slot == slot);
    for id in arena.ids() {
        if let Node::Input { index, .. } = arena.node(id)
            && !is_read(index)
        {
            return Err("one of its values has no source".into());
        }
    }
    Ok(GroupLoop {
        level,
        members,
        template: Template { arena, roots },
        locals,
        reads,
        writes,
    })
}

fn source(reader: &mut Reader<'_>, analysis: &Analysis) -> Read<Source> {
    let source = Source::from_number(reader.number()?);
    let exists = match source {
        Source::Constant | Source::Intermediate => true,
        Source::Input(array) => (array as usize) < analysis.inputs.len(),
        Source::Output(array) => (array as usize) < analysis.outputs.len(),
    };
    if exists {
        return Ok(source);
    }
    Err("it names an array that does not exist".into())
}

fn index(
    reader: &mut Reader<'_>,
    analysis: &Analysis,
    source: Source,
    members: u32,
) -> Read<Index> {
    let (kind, a, b) = (reader.number()?, reader.number()?, reader.number()? as i32);
    if kind == 0 {
        let (first, stride) = (a as i32, b);
        return Ok(Index::Affine { first, stride });
    }
    let entries = if source == Source::Constant {
        analysis.tables.constants.len()
    } else {
        analysis.tables.indices.len()
    };
    let (start, offset) = (a as usize, b);
    if kind == 1 && start.saturating_add(members as usize) <= entries {
        return Ok(Index::Table { start, offset });
    }
    Err("one of its tables is inconsistent".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::Real;
    use crate::sym::Sym;

    fn example() -> Trace {
        let recorded = Trace::record(&[8, 2], |x| {
            let scaled = x[0].iter().enumerate().map(|(n, a)| {
                let both = [(*a * x[1][0]).sin(), *a + 0.25 * n as f64];
                Sym::select(both[0].less(both[1]), both[0], both[1])
            });
            let scaled: Vec<Sym> = scaled.collect();
            let sum = scaled.iter().rev().zip(&x[0]).map(|(a, b)| *a * *b).sum();
            vec![scaled, vec![sum]]
        });
        recorded.unwrap()
    }

    #[test]
    fn an_analysis_is_the_same_after_a_round_trip() {
        let trace = example();
        for options in [Options::default(), Options::none()] {
            let analysis = analyze(&trace, &options).unwrap();
            let decoded = decode(&encode(&analysis), &trace).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{analysis:?}"));
        }
    }

    #[test]
    fn keys_differ_between_traces_and_options() {
        let trace = example();
        let other = Trace::record(&[8, 2], |x| vec![x[0].clone(), vec![x[1][0]]]).unwrap();
        let all = key(&trace, &Options::default());
        assert_ne!(all, key(&trace, &Options::none()));
        assert_ne!(all, key(&other, &Options::default()));
        assert_eq!(all, key(&example(), &Options::default()));
    }

    /// A program that computes the checksum can write anything.
    #[test]
    fn wild_contents_are_refused_or_harmless() {
        let trace = example();
        let bytes = encode(&analyze(&trace, &Options::default()).unwrap());
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at], &trace).is_err(), "first {at} bytes");
            for value in [0, 1, 0x7f, 0xff] {
                let mut wild = bytes.clone();
                wild[at] = value;
                if let Ok(found) = decode(&wild, &trace) {
                    let _ = crate::explain::Explanation::new(&found, wuji_ir::types::Scalar::F64);
                }
            }
        }
        let other = Trace::record(&[8], |x| vec![x[0].clone()]).unwrap();
        assert_eq!(
            decode(&bytes, &other).unwrap_err(),
            "it belongs to another trace"
        );
    }
}
