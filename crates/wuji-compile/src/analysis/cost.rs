//! How often loops turn, and what pays on GPUs.

use wuji_ir::entities::{Field, Inst};
use wuji_ir::module::{Env, Function};
use wuji_ir::types::Imm;

/// Turns of a loop from one constant to another.
pub fn trips(f: &Function, inst: Inst) -> Option<u64> {
    let args = &f.insts[inst].args;
    let number = |k: usize| f.constant(args[k]).and_then(Imm::as_int);
    let (lo, hi, step) = (number(0)?, number(1)?, number(2)?);
    let count = (hi - lo).checked_div(step)?;
    Some(count.clamp(0, 1 << 20) as u64)
}

/// From here on, GPUs add four neighbouring floats to memory by one instruction.
const ADDS_VECTORS: u32 = 90;

/// Whether sums in the shared memory of a thread block pay. GPUs have no atomic that adds floats there; they compare and try again.
pub fn sums_pay(m: &Env, field: Field, sm: u32) -> bool {
    let scalars = m.structs.flatten(m.fields[field].elem);
    sm < ADDS_VECTORS || !scalars.iter().any(|s| s.is_float())
}
