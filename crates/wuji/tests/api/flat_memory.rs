//! Dropped kernels and worlds free all their memory and threads.
//!
//! `WUJI_LONG=1` compiles 10,000 kernels instead of some hundred.
#![cfg(target_os = "linux")]

use crate::process::isolated;
use std::fs;
use wuji::prelude::*;
use wuji::{CacheChoice, World};

/// Bytes of memory that this process has touched.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// A kernel like no other.
fn kernel(number: usize) -> String {
    format!(
        "module \"kernel{number}\"
         tree T0 {{ dense S1 [i: 64] {{ place f0 }} }}
         field f0 \"x\": f32 in T0.S1 (i)
         kernel fn0 \"kernel{number}\"() {{
           v0: f32 = const {number}.5
           foreach L0 (v1: i32) in f0 {{
             v2: f32 = load f0[v1]
             v3: f32 = add v2, v0
             store f0[v1], v3
             continue L0
           }}
           return
         }}"
    )
}

fn compile_and_drop(world: &World, number: usize) {
    let module = wuji_ir::text::parse(&kernel(number), "kernel.wir").unwrap();
    let mut instance = world.instance(module).unwrap();
    instance.run(&[], 0, 0).unwrap();
    let field = wuji_ir::entities::Field::from_u32(0);
    let value = instance.get(field, &[63]).unwrap()[0];
    assert_eq!(f32::from_bits(value.bits() as u32), number as f32 + 0.5);
}

#[test]
fn memory_stays_flat() {
    isolated("flat_memory::memory_stays_flat", || {
        kernels_are_freed();
        worlds_are_freed();
    });
}

fn is_long() -> bool {
    std::env::var_os("WUJI_LONG").is_some_and(|v| v == "1")
}

fn kernels_are_freed() {
    let count = if is_long() { 10_000 } else { 400 };
    for tier in [Tier::Fast, Tier::Auto, Tier::Best] {
        // The best code takes a hundred times as long.
        let count = if tier == Tier::Best {
            count / 20
        } else {
            count
        };
        let builder = World::builder().threads(2).cache(CacheChoice::Off);
        let world = builder.tier(tier).build().unwrap();
        let warm = count / 4;
        (0..warm).for_each(|k| compile_and_drop(&world, k));
        let before = resident();
        (warm..count).for_each(|k| compile_and_drop(&world, k));
        let grown = resident().saturating_sub(before);
        println!("{tier:?}: {count} kernels, {} KiB more", grown / 1024);
        assert!(
            grown < 8 << 20,
            "{tier:?}: {grown} bytes for {count} kernels"
        );
    }
}

fn worlds_are_freed() {
    let worlds = if is_long() { 1000 } else { 60 };
    let cycle = |k| {
        let world = World::builder().threads(3).cache(CacheChoice::Off);
        compile_and_drop(&world.tier(Tier::Fast).build().unwrap(), k);
    };
    (0..worlds / 4).for_each(cycle);
    let (before, started) = (resident(), threads());
    (0..worlds).for_each(cycle);
    let grown = resident().saturating_sub(before);
    println!("{worlds} worlds, {} KiB more", grown / 1024);
    assert!(grown < 8 << 20, "{grown} bytes for {worlds} worlds");
    assert!(threads() <= started, "threads are left behind");
}
