//! Random numbers: `docs/ir.md`, section 5. A counter-based generator: a hash of the position of a draw, so
//! that the numbers do not depend on the schedule.

/// 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64 bits in which every input bit reaches every output bit.
pub const fn mix(mut z: u64) -> u64 {
    z ^= z >> 30;
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of one task of one launch: what `random_key` gives.
pub const fn task_key(seed: u64, launch: u64, task: u64) -> u64 {
    let world = mix(seed.wrapping_add(GOLDEN));
    mix(world.wrapping_add(launch.wrapping_mul(GOLDEN))).wrapping_add(task.wrapping_mul(GOLDEN))
}

/// Draw number `draw`, from 0, of an iteration of the task with this key.
pub const fn draw(key: u64, iteration: u64, draw: u64) -> u64 {
    let task = mix(key);
    let iteration = mix(task.wrapping_add(iteration.wrapping_mul(GOLDEN)));
    mix(iteration.wrapping_add(draw.wrapping_add(1).wrapping_mul(GOLDEN)))
}
