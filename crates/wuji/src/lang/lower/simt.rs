//! What threads of a block do together.

use super::binding::{ArrayPlace, ArrayVal, Shape, Val};
use super::body::Body;
use crate::lang::ast::{At, Expr};
use wuji_ir::Result;
use wuji_ir::module::{LocalData, LocalRole};
use wuji_ir::ops::{Op, Shuffle, ThreadOp};

/// The operation that a function of `simt` stands for.
fn operation(name: &str) -> Option<ThreadOp> {
    Some(match name.strip_prefix("simt::")? {
        "block::thread" => ThreadOp::Index,
        "block::size" => ThreadOp::BlockSize,
        "block::index" => ThreadOp::Block,
        "block::count" => ThreadOp::Blocks,
        "block::sync" => ThreadOp::Barrier,
        "block::sync_all" => ThreadOp::BarrierAll,
        "block::sync_any" => ThreadOp::BarrierAny,
        "block::sync_count" => ThreadOp::BarrierCount,
        "block::fence" => ThreadOp::BlockFence,
        "grid::fence" => ThreadOp::GridFence,
        "warp::lane" => ThreadOp::Lane,
        "warp::active_mask" => ThreadOp::ActiveMask,
        "warp::ballot" => ThreadOp::Ballot,
        "warp::match_any" => ThreadOp::MatchAny,
        "warp::shuffle" => ThreadOp::Shuffle(Shuffle::From),
        "warp::shuffle_up" => ThreadOp::Shuffle(Shuffle::Up),
        "warp::shuffle_down" => ThreadOp::Shuffle(Shuffle::Down),
        "warp::shuffle_xor" => ThreadOp::Shuffle(Shuffle::Xor),
        "warp::sync" => ThreadOp::WarpBarrier,
        _ => return None,
    })
}

/// Whether a function is one of those that stand for an operation.
pub(in crate::lang) fn is_simt(name: &str) -> bool {
    name == "simt::shared" || operation(name).is_some()
}

impl Body<'_, '_> {
    /// A call of a function of `simt`; `None` when it is another.
    pub(super) fn simt(
        &mut self,
        at: At,
        name: &str,
        shape: &Shape,
        args: &'static [Expr],
    ) -> Result<Option<Val>> {
        if name == "simt::shared" {
            return self.shared_array(at, shape).map(Some);
        }
        let Some(op) = operation(name) else {
            return Ok(None);
        };
        let Some(values) = self.values(args)? else {
            return Ok(Some(Val::Never));
        };
        self.at(at);
        Ok(Some(match shape {
            Shape::Unit => {
                self.push(Op::Thread(op), &values);
                Val::Unit
            }
            Shape::Value(_) | Shape::Array(..) | Shape::Data => {
                Val::Value(self.op(Op::Thread(op), &values))
            }
        }))
    }

    fn shared_array(&mut self, at: At, shape: &Shape) -> Result<Val> {
        let mut dims = Vec::new();
        let mut inner = shape;
        while let Shape::Array(part, n) = inner {
            dims.push(u32::try_from(*n).unwrap_or(u32::MAX));
            inner = part;
        }
        let len = dims.iter().try_fold(1u32, |n, d| n.checked_mul(*d));
        let (Some(elem), Some(len)) = (Body::shape_is_value(inner), len.filter(|n| *n > 0)) else {
            return Err(self
                .fail(
                    at,
                    "W0212",
                    "a shared array has elements, of numbers, vectors or structs",
                )
                .help("as in `shared::<f32, 256>()`"));
        };
        let local = self.f.locals.push(LocalData {
            name: String::new(),
            ty: elem,
            len: Some(len),
            shared: true,
            role: LocalRole::Variable,
        });
        Ok(Val::Array(ArrayVal::Shared(ArrayPlace {
            local,
            elem,
            dims,
            base: None,
        })))
    }
}
