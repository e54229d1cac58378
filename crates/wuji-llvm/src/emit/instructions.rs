//! Instructions.

use super::*;

impl Emit<'_> {
    pub(crate) fn binary(&self, op: LLVMOpcode, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildBinOp(self.builder, op, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn add(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMAdd, a, b)
    }

    pub(crate) fn sub(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMSub, a, b)
    }

    pub(crate) fn and(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMAnd, a, b)
    }

    pub(crate) fn or(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMOr, a, b)
    }

    pub(crate) fn xor(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMXor, a, b)
    }

    /// Addition that does not wrap, signed or unsigned, by the caller's knowledge.
    pub(crate) fn add_no_wrap(&self, a: Val, b: Val, signed: bool) -> Val {
        if signed {
            Val(llvm!(LLVMBuildNSWAdd(self.builder, a.0, b.0, NO_NAME)))
        } else {
            Val(llvm!(LLVMBuildNUWAdd(self.builder, a.0, b.0, NO_NAME)))
        }
    }

    pub(crate) fn fneg(&self, a: Val) -> Val {
        Val(llvm!(LLVMBuildFNeg(self.builder, a.0, NO_NAME)))
    }

    pub(crate) fn freeze(&self, a: Val) -> Val {
        Val(llvm!(LLVMBuildFreeze(self.builder, a.0, NO_NAME)))
    }

    pub(crate) fn icmp(&self, p: LLVMIntPredicate, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildICmp(self.builder, p, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn fcmp(&self, p: LLVMRealPredicate, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildFCmp(self.builder, p, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn select(&self, c: Val, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildSelect(self.builder, c.0, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn cast(&self, op: LLVMOpcode, v: Val, to: Ty) -> Val {
        Val(llvm!(LLVMBuildCast(self.builder, op, v.0, to.0, NO_NAME)))
    }

    pub(crate) fn bitcast(&self, v: Val, to: Ty) -> Val {
        self.cast(LLVMOpcode::LLVMBitCast, v, to)
    }

    /// Sets fast-math flags, unless the value was folded into a constant.
    pub(crate) fn set_fast_math(&self, v: Val, flags: u32) {
        if flags != 0
            && !llvm!(LLVMIsAInstruction(v.0)).is_null()
            && llvm!(LLVMCanValueUseFastMathFlags(v.0)) != 0
        {
            llvm!(LLVMSetFastMathFlags(v.0, flags));
        }
    }

    /// A phi at the insertion point; [`Emit::add_incoming`] adds its values.
    pub(crate) fn phi(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMBuildPhi(self.builder, ty.0, NO_NAME)))
    }

    pub(crate) fn add_incoming(&self, phi: Val, value: Val, from: Block) {
        let (mut v, mut b) = (value.0, from.0);
        llvm!(LLVMAddIncoming(phi.0, &mut v, &mut b, 1));
    }

    /// `base + offset` bytes, inside the object that `base` points into.
    pub(crate) fn offset(&self, base: Val, offset: Val) -> Val {
        let mut index = offset.0;
        Val(llvm!(LLVMBuildInBoundsGEP2(
            self.builder,
            self.int_ty(8).0,
            base.0,
            &mut index,
            1,
            NO_NAME
        )))
    }

    /// Address of an element of a local array.
    pub(crate) fn element(&self, elem: Ty, base: Val, index: Val) -> Val {
        let mut index = index.0;
        Val(llvm!(LLVMBuildInBoundsGEP2(
            self.builder,
            elem.0,
            base.0,
            &mut index,
            1,
            NO_NAME
        )))
    }

    pub(crate) fn alloca(&self, ty: Ty, align: u32) -> Val {
        let v = Val(llvm!(LLVMBuildAlloca(self.builder, ty.0, NO_NAME)));
        llvm!(LLVMSetAlignment(v.0, align));
        v
    }

    pub(crate) fn load(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = Val(llvm!(LLVMBuildLoad2(self.builder, ty.0, ptr.0, NO_NAME)));
        llvm!(LLVMSetAlignment(v.0, align));
        v
    }

    pub(crate) fn store(&self, v: Val, ptr: Val, align: u32) -> Val {
        let s = Val(llvm!(LLVMBuildStore(self.builder, v.0, ptr.0)));
        llvm!(LLVMSetAlignment(s.0, align));
        s
    }

    /// A volatile load: executed each time and never torn, but it orders nothing.
    pub(crate) fn load_fresh(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = self.load(ty, ptr, align);
        llvm!(LLVMSetVolatile(v.0, 1));
        llvm!(LLVMSetOrdering(
            v.0,
            LLVMAtomicOrdering::LLVMAtomicOrderingUnordered
        ));
        v
    }

    /// A load that may race with other threads: it returns one value that was stored, and is not repeated.
    pub(crate) fn load_unordered(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = self.load(ty, ptr, align);
        if self.ordered.get() {
            let acquire = LLVMAtomicOrdering::LLVMAtomicOrderingAcquire;
            llvm!(LLVMSetOrdering(v.0, acquire));
            return self.scoped(v);
        }
        llvm!(LLVMSetOrdering(
            v.0,
            LLVMAtomicOrdering::LLVMAtomicOrderingUnordered
        ));
        v
    }

    pub(crate) fn load_relaxed(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = self.load(ty, ptr, align);
        llvm!(LLVMSetOrdering(
            v.0,
            LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic
        ));
        self.scoped(v)
    }

    pub(crate) fn memset_zero(&self, ptr: Val, bytes: u64, align: u32) -> Val {
        let zero = self.zero(self.int_ty(8));
        let len = self.const_i64(bytes as i64);
        Val(llvm!(LLVMBuildMemSet(
            self.builder,
            ptr.0,
            zero.0,
            len.0,
            align
        )))
    }

    pub(crate) fn atomic_rmw(&self, op: LLVMAtomicRMWBinOp, ptr: Val, v: Val) -> Val {
        self.scoped(Val(llvm!(LLVMBuildAtomicRMW(
            self.builder,
            op,
            ptr.0,
            v.0,
            self.ordering(),
            0
        ))))
    }

    /// The pair of old value and success flag.
    pub(crate) fn cmpxchg(&self, ptr: Val, expected: Val, new: Val) -> Val {
        self.scoped(Val(llvm!(LLVMBuildAtomicCmpXchg(
            self.builder,
            ptr.0,
            expected.0,
            new.0,
            self.ordering(),
            if self.ordered.get() {
                LLVMAtomicOrdering::LLVMAtomicOrderingAcquire
            } else {
                LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic
            },
            0
        ))))
    }

    pub(crate) fn extract(&self, aggregate: Val, index: u32) -> Val {
        Val(llvm!(LLVMBuildExtractValue(
            self.builder,
            aggregate.0,
            index,
            NO_NAME
        )))
    }

    pub(crate) fn insert(&self, aggregate: Val, v: Val, index: u32) -> Val {
        Val(llvm!(LLVMBuildInsertValue(
            self.builder,
            aggregate.0,
            v.0,
            index,
            NO_NAME
        )))
    }

    /// A vector with one value in every lane.
    pub(crate) fn splat(&self, v: Val, lanes: u32) -> Val {
        if self.is_constant(v) {
            return self.const_vector(&vec![v; lanes as usize]);
        }
        let ty = self.vector_ty(self.ty_of(v), lanes);
        let poison = Val(llvm!(LLVMGetPoison(ty.0)));
        let first = self.set_lane(poison, self.const_i64(0), v);
        let mask = self.zero(self.vector_ty(self.int_ty(32), lanes));
        Val(llvm!(LLVMBuildShuffleVector(
            self.builder,
            first.0,
            poison.0,
            mask.0,
            NO_NAME
        )))
    }

    pub(crate) fn compose(&self, lanes: &[Val]) -> Val {
        if lanes.iter().all(|v| self.is_constant(*v)) {
            return self.const_vector(lanes);
        }
        let ty = self.vector_ty(self.ty_of(lanes[0]), lanes.len() as u32);
        let mut all = Val(llvm!(LLVMGetPoison(ty.0)));
        for (k, v) in lanes.iter().enumerate() {
            all = self.set_lane(all, self.const_i64(k as i64), *v);
        }
        all
    }

    /// Lanes of two vectors of one type, numbered consecutively, or [`ANY_LANE`].
    pub(crate) fn shuffle(&self, a: Val, b: Val, lanes: &[u32]) -> Val {
        let ty = self.int_ty(32);
        let numbers: Vec<Val> = lanes
            .iter()
            .map(|k| match *k {
                ANY_LANE => Val(llvm!(LLVMGetPoison(ty.0))),
                k => self.const_int(ty, u64::from(k)),
            })
            .collect();
        let mask = self.const_vector(&numbers);
        Val(llvm!(LLVMBuildShuffleVector(
            self.builder,
            a.0,
            b.0,
            mask.0,
            NO_NAME
        )))
    }

    pub(crate) fn lane(&self, vector: Val, index: Val) -> Val {
        Val(llvm!(LLVMBuildExtractElement(
            self.builder,
            vector.0,
            index.0,
            NO_NAME
        )))
    }

    pub(crate) fn set_lane(&self, vector: Val, index: Val, v: Val) -> Val {
        Val(llvm!(LLVMBuildInsertElement(
            self.builder,
            vector.0,
            v.0,
            index.0,
            NO_NAME
        )))
    }

    /// Sets the alignment that an intrinsic may rely on.
    pub(crate) fn add_call_align(&self, call: Val, param: u32, align: u32) {
        let attr = self.enum_attr("align", u64::from(align));
        llvm!(LLVMAddCallSiteAttribute(
            call.0,
            attr_index(On::Param(param)),
            attr
        ));
    }

    /// A direct call, by the callee's own calling convention.
    pub(crate) fn call(&self, f: Fun, args: &[Val]) -> Val {
        let call = self.call_indirect(f.ty, f.value, args);
        llvm!(LLVMSetInstructionCallConv(
            call.0,
            LLVMGetFunctionCallConv(f.value.0)
        ));
        call
    }

    pub(crate) fn call_indirect(&self, ty: Ty, target: Val, args: &[Val]) -> Val {
        let mut raw: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        Val(llvm!(LLVMBuildCall2(
            self.builder,
            ty.0,
            target.0,
            raw.as_mut_ptr(),
            raw.len() as u32,
            NO_NAME
        )))
    }

    /// A call of `llvm.<name>` overloaded on `types`.
    pub(crate) fn intrinsic(&self, name: &str, types: &[Ty], args: &[Val]) -> Val {
        let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
        debug_assert_ne!(id, 0, "LLVM knows no intrinsic {name}");
        let mut raw: Vec<LLVMTypeRef> = types.iter().map(|t| t.0).collect();
        let value = Val(llvm!(LLVMGetIntrinsicDeclaration(
            self.module,
            id,
            raw.as_mut_ptr(),
            raw.len()
        )));
        let ty = Ty(llvm!(LLVMGlobalGetValueType(value.0)));
        self.call_indirect(ty, value, args)
    }

    /// Inline assembly for an instruction that has no LLVM IR. It has no result, and accesses memory.
    pub(crate) fn assembly(&self, text: &str, constraints: &str, args: &[Val]) {
        let types: Vec<Ty> = args.iter().map(|a| self.ty_of(*a)).collect();
        let ty = self.fn_ty(self.void_ty(), &types);
        let value = Val(llvm!(LLVMGetInlineAsm(
            ty.0,
            text.as_ptr().cast(),
            text.len(),
            constraints.as_ptr().cast(),
            constraints.len(),
            1,
            0,
            LLVMInlineAsmDialect::LLVMInlineAsmDialectATT,
            0
        )));
        self.call_indirect(ty, value, args);
    }

    /// Inline assembly for an instruction with one result and no effect.
    pub(crate) fn pure_assembly(
        &self,
        text: &str,
        constraints: &str,
        result: Ty,
        args: &[Val],
    ) -> Val {
        let types: Vec<Ty> = args.iter().map(|a| self.ty_of(*a)).collect();
        let ty = self.fn_ty(result, &types);
        let value = Val(llvm!(LLVMGetInlineAsm(
            ty.0,
            text.as_ptr().cast(),
            text.len(),
            constraints.as_ptr().cast(),
            constraints.len(),
            0,
            0,
            LLVMInlineAsmDialect::LLVMInlineAsmDialectATT,
            0
        )));
        self.call_indirect(ty, value, args)
    }

    pub(crate) fn br(&self, to: Block) -> Val {
        Val(llvm!(LLVMBuildBr(self.builder, to.0)))
    }

    pub(crate) fn cond_br(&self, c: Val, then: Block, otherwise: Block) -> Val {
        Val(llvm!(LLVMBuildCondBr(
            self.builder,
            c.0,
            then.0,
            otherwise.0
        )))
    }

    /// Returns a value, or nothing when the result type is `void`.
    pub(crate) fn ret(&self, result: Ty, v: Option<Val>) {
        match v {
            Some(v) if !self.is_void(result) => llvm!(LLVMBuildRet(self.builder, v.0)),
            _ => llvm!(LLVMBuildRetVoid(self.builder)),
        };
    }
}
