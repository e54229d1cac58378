//! Versions straight-line code of GPU threads: the accesses around one element, such as an unrolled stencil or the nodes around
//! a particle, are in range together or not.
//!
//! All of them depend on the same values, so those are known before the first access.
//! `if in_range { unchecked } else { checked }` around all of them takes the branches of single accesses away, and neighbouring
//! updates become one instruction. On a CPU, masked accesses vectorize, and a branch around them does not.

use super::version::{all_hold, freeze_values, mark, mark_boundary};
use super::*;
use std::collections::BTreeMap;

/// The fewest accesses that are versioned together.
const FEW: usize = 9;
/// The most instructions that are copied.
const MOST_INSTS: usize = 8192;

/// Instructions of a region, from the first access to the last.
struct Stencil {
    region: Region,
    first: usize,
    last: usize,
    constraints: Vec<Constraint>,
    accesses: Vec<Inst>,
}

/// Versions the stencils of all loops that are distributed over the threads of a GPU.
pub(super) fn version_stencils(m: &mut Env, f: &mut Function, near: &FxHashSet<Inst>, cx: &mut Cx) {
    let found = stencils(m, f, near);
    if found.is_empty() {
        return;
    }
    let constraints = found.iter().flat_map(|s| &s.constraints);
    freeze_values(m, f, constraints.cloned().collect());
    // The expressions refer to frozen values now.
    for stencil in stencils(m, f, near) {
        if !cx.fuel() {
            break;
        }
        version_stencil(m, f, &stencil);
    }
}

/// At most one for each loop.
fn stencils(m: &Env, f: &Function, near: &FxHashSet<Inst>) -> Vec<Stencil> {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut bodies = Vec::new();
    f.walk(|inst| {
        if is_distributed(f, &structure, inst) && !is_cooperative(f, inst, false) {
            bodies.push(f.insts[inst].regions[0]);
        }
    });
    let largest = |body| {
        let groups = groups(m, &mut affine, near, body);
        let largest = groups.into_iter().max_by_key(|s| s.accesses.len());
        largest.filter(|s| {
            let inside = &f.regions[body].insts[s.first..=s.last];
            s.accesses.len() >= FEW && size(f, inside) <= MOST_INSTS
        })
    };
    bodies.into_iter().filter_map(largest).collect()
}

/// The number of instructions, with those inside them.
fn size(f: &Function, insts: &[Inst]) -> usize {
    let regions = insts.iter().flat_map(|i| &f.insts[*i].regions);
    insts.len() + regions.map(|r| f.insts_in(*r).count()).sum::<usize>()
}

/// The accesses of a loop's body, by the values that their indices depend on.
fn groups(
    m: &Env,
    affine: &mut AffineAnalysis,
    near: &FxHashSet<Inst>,
    body: Region,
) -> Vec<Stencil> {
    let f = affine.func;
    let mut groups: BTreeMap<Vec<Value>, Stencil> = BTreeMap::new();
    for (position, top) in f.regions[body].insts.iter().enumerate() {
        let nested = f.insts[*top].regions.iter();
        let nested: Vec<Inst> = nested.flat_map(|r| f.insts_in(*r)).collect();
        for inst in std::iter::once(*top).chain(nested) {
            let Some(access) = checked(f, inst).filter(|_| !near.contains(&inst)) else {
                continue;
            };
            if matches!(access.place, Place::Local(_)) || !is_dense(m, access.place) {
                continue;
            }
            let domains = domains(m, f, access);
            let indices = domains.iter().zip(&f.insts[inst].args);
            let found: Option<Vec<_>> = indices
                .map(|(d, v)| constraint(affine, Scope::Iteration(body), *v, *d))
                .collect();
            let Some(found) = found else { continue };
            let found: Vec<Constraint> = found.into_iter().flatten().collect();
            let mut atoms: Vec<Value> = found
                .iter()
                .flat_map(|c| c.invariant.terms.iter().map(|(v, _)| *v))
                .collect();
            atoms.sort();
            atoms.dedup();
            let group = groups.entry(atoms).or_insert_with(|| Stencil {
                region: body,
                first: position,
                last: position,
                constraints: Vec::new(),
                accesses: Vec::new(),
            });
            group.last = position;
            group.accesses.push(inst);
            for c in found {
                merge(&mut group.constraints, c);
            }
        }
    }
    groups.into_values().collect()
}

fn version_stencil(m: &mut Env, f: &mut Function, stencil: &Stencil) {
    let mut insts = std::mem::take(&mut f.regions[stencil.region].insts);
    let behind = insts.split_off(stencil.last + 1);
    let inside = insts.split_off(stencil.first);
    f.regions[stencil.region].insts = insts;
    let mut map = Map::new();
    let copies: Vec<Inst> = inside.iter().map(|i| clone_inst(f, *i, &mut map)).collect();
    for copy in &copies {
        mark_boundary(f, *copy);
    }
    mark(f, &stencil.accesses);
    let outlive = outlive(f, stencil.region, &inside, &behind);
    let types: Vec<Type> = outlive.iter().map(|v| f.ty(*v)).collect();
    let copied: Values = outlive.iter().map(|v| map.value(*v)).collect();

    let mut b = Builder::new(m, f);
    b.region = stencil.region;
    b.span = b.func.spans[inside[0]];
    let in_range = all_hold(&mut b, &stencil.constraints);
    let choice = b.push_typed(Op::If, &[in_range], &types);
    for (insts, values) in [
        (inside, outlive.iter().copied().collect()),
        (copies, copied),
    ] {
        let region = b.region(&[], |b, _| {
            b.func.regions[b.region].insts.extend(insts);
            b.end(Term::Yield(values));
        });
        b.func.insts[choice].regions.push(region);
    }
    let mut subst = Substitution::new();
    for (old, new) in outlive.iter().zip(f.insts[choice].results.clone()) {
        subst.set(*old, new);
    }
    let mut regions = vec![stencil.region];
    for inst in &behind {
        subst.apply_to_inst(f, *inst);
        for region in f.insts[*inst].regions.clone() {
            regions.extend(f.regions_in(region));
            for nested in f.insts_in(region).collect::<Vec<_>>() {
                subst.apply_to_inst(f, nested);
            }
        }
    }
    for region in regions {
        subst.apply_to_term(f, region);
    }
    f.regions[stencil.region].insts.extend(behind);
}

/// Results of instructions that are used behind them.
fn outlive(f: &Function, region: Region, inside: &[Inst], behind: &[Inst]) -> Vec<Value> {
    let mut used: FxHashSet<Value> = f.regions[region].term.args().iter().copied().collect();
    for inst in behind {
        used.extend(&f.insts[*inst].args);
        for r in f.insts[*inst].regions.iter().flat_map(|r| f.regions_in(*r)) {
            used.extend(f.regions[r].term.args());
            used.extend(f.regions[r].insts.iter().flat_map(|i| &f.insts[*i].args));
        }
    }
    let results = inside.iter().flat_map(|i| &f.insts[*i].results);
    results.copied().filter(|v| used.contains(v)).collect()
}
