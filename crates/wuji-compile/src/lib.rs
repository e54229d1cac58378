//! The passes of the Wuji compiler and the one pipeline that orders them.

pub mod analysis;
pub mod autodiff;
pub mod functions;
pub mod nodes;
pub mod options;
pub mod passes;
pub mod pipeline;
pub mod quant;
pub mod remark;
pub mod rewrite;
pub mod specialize;

pub use functions::{Functions, Libdevice};
pub use options::{Bounds, Math, Options, Target};
pub use passes::{Cx, PASSES, Pass, PassKind};
pub use pipeline::{
    FIRST_PASSES, LATE_PASSES, Lowered, compile, compile_quickly, compile_with,
    compile_with_progress, explain, first_code, improve, run_pass, serial_loops_left, step,
};
pub use remark::{Decision, Enclosing, KeptCode, Remark, Reversal, WordWrite};
