//! Making a [`Recording`]: reading slots back, and visiting the functions behind calls.
//!
//! A call is known by the type of a function item or of a closure around one, which has no size. Recording conjures it up
//! and calls it with made-up arguments while the thread is in recording mode: a `#[func]` then describes itself and
//! returns at once. What is no `#[func]` is never called, because its types say so: see [`calls`](super::calls).

use super::ast::Ast;
use super::builtin;
use super::recording::{CallTarget, Callee, Constant, Function, Recording, TypeTag};
use super::shadow::{OnlyInKernels, Slot, not_on_the_host};
use crate::array::{Array, ArrayMut, SharedArray};
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::nd_array::NdArray;
use rustc_hash::FxHashMap;
use std::any::{TypeId, type_name};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use wuji_ir::types::Structs;
use wuji_runtime::callable::{Callable, conjure};

/// A type whose values a kernel can hold in variables.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used inside a Wuji kernel",
    label = "not a type of the kernel language",
    note = "kernels work on numbers, `bool`, vectors, matrices, arrays, tuples, `Option`, and structs and enums with `#[derive(Element)]`"
)]
pub trait Value: Copy + 'static {
    /// Whether its methods are part of the language.
    const BUILTIN: bool;

    /// The type.
    fn tag() -> TypeTag;
    /// Some value, for code that rustc checks and that never runs.
    fn made_up() -> Self;
    /// Adds the bits of each scalar.
    fn bits(self, out: &mut Vec<u64>);
}

#[diagnostic::do_not_recommend]
impl<T: Element> Value for T {
    const BUILTIN: bool = T::BUILTIN;

    fn tag() -> TypeTag {
        TypeTag::Element(T::ir_type)
    }
    fn made_up() -> T {
        T::zero()
    }
    fn bits(self, out: &mut Vec<u64>) {
        let start = out.len();
        out.resize(start + T::SCALARS, 0);
        self.to_slots(&mut out[start..]);
    }
}

impl Value for () {
    const BUILTIN: bool = true;

    fn tag() -> TypeTag {
        TypeTag::Unit
    }
    fn made_up() {}
    fn bits(self, _: &mut Vec<u64>) {}
}

#[diagnostic::do_not_recommend]
impl<T: Value, const N: usize> Value for [T; N] {
    const BUILTIN: bool = true;

    fn tag() -> TypeTag {
        TypeTag::Array(Box::new(T::tag()), N)
    }
    fn made_up() -> [T; N] {
        [T::made_up(); N]
    }
    fn bits(self, out: &mut Vec<u64>) {
        for part in self {
            part.bits(out);
        }
    }
}

/// Something that can be passed to a function: a value, or data of the kernel.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a function inside a Wuji kernel",
    label = "not a type of the kernel language"
)]
pub trait Passed: Sized {
    const BUILTIN: bool;

    fn tag() -> TypeTag;
    /// A value to record a call with.
    fn made_up() -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Value> Passed for T {
    const BUILTIN: bool = T::BUILTIN;

    fn tag() -> TypeTag {
        T::tag()
    }
    fn made_up() -> T {
        T::made_up()
    }
}

#[diagnostic::do_not_recommend]
impl<X: Data> Passed for OnlyInKernels<X> {
    const BUILTIN: bool = false;

    fn tag() -> TypeTag {
        TypeTag::Data
    }
    fn made_up() -> OnlyInKernels<X> {
        OnlyInKernels::Described
    }
}

/// References to fields and arrays.
pub trait Data {}

macro_rules! data {
    ($([$($generics:tt)*] $ty:ty;)*) => {$(
        impl<$($generics)*> Data for $ty {}

        // A function that takes one as it is, is no `#[func]`: rustc reports that at the argument.
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Passed for $ty {
            const BUILTIN: bool = false;

            fn tag() -> TypeTag {
                TypeTag::Data
            }
            fn made_up() -> Self {
                not_on_the_host()
            }
        }
    )*};
}
data! {
    [T: Element, const D: usize] &Field<T, D>;
    [const D: usize] &Cells<D>;
    [T: Element] &[T];
    [T: Element] &mut [T];
    [T: Element, const D: usize] &Array<'_, T, D>;
    [T: Element, const D: usize] &ArrayMut<'_, T, D>;
    [T: Element, const D: usize] &mut ArrayMut<'_, T, D>;
    [T: Element, const D: usize] &SharedArray<'_, T, D>;
    [T: Element, const D: usize] &NdArray<T, D>;
}

/// A function item or closure, with the tuple of its arguments and result.
#[diagnostic::on_unimplemented(
    message = "this cannot be called inside a Wuji kernel",
    label = "not a `#[func]`"
)]
pub trait Invocable<S>: Callable<S> {
    /// Whether the first argument is of a type whose methods are part of the language.
    const BUILTIN_RECEIVER: bool;

    fn params() -> Vec<TypeTag>;
    fn result() -> TypeTag;
    fn result_name() -> &'static str;
    fn call(self);
}

macro_rules! functions {
    ($($($a:ident)*;)*) => {$(
        impl<Fun, R, $($a),*> Invocable<($($a,)* R,)> for Fun
        where
            Fun: Copy + Fn($($a),*) -> R,
            R: Value,
            $($a: Passed,)*
        {
            #[allow(unused_mut, unused_variables)]
            const BUILTIN_RECEIVER: bool = {
                let flags: &[bool] = &[$($a::BUILTIN),*];
                match flags {
                    [first, ..] => *first,
                    [] => false,
                }
            };

            fn params() -> Vec<TypeTag> {
                vec![$($a::tag()),*]
            }
            fn result() -> TypeTag {
                R::tag()
            }
            fn result_name() -> &'static str {
                type_name::<R>()
            }
            fn call(self) {
                self($($a::made_up()),*);
            }
        }
    )*};
}
functions! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E G;
    A B C D E G H;
    A B C D E G H I;
    A B C D E G H I J;
    A B C D E G H I J K;
    A B C D E G H I J K L;
    A B C D E G H I J K L M;
}

/// What one thread has recorded so far.
#[derive(Default)]
struct State {
    known: FxHashMap<TypeId, usize>,
    functions: Vec<Function>,
    /// The function that the last call in recording mode reached.
    reached: Option<usize>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// How many threads are recording, so that `#[func]`s on the host look no further most of the time.
static RECORDING: AtomicUsize = AtomicUsize::new(0);

/// Whether functions are called to describe themselves.
#[inline]
pub fn recording() -> bool {
    RECORDING.load(Ordering::Relaxed) != 0 && with(|_| ()).is_some()
}

fn with<T>(f: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.with(|s| s.try_borrow_mut().ok()?.as_mut().map(f))
}

/// Recording mode for as long as it lives; an outer recording waits.
struct Mode {
    outer: Option<State>,
}

impl Mode {
    fn enter() -> Mode {
        RECORDING.fetch_add(1, Ordering::Relaxed);
        Mode {
            outer: STATE.with(|s| s.replace(Some(State::default()))),
        }
    }

    fn finish(self) -> State {
        STATE.with(|s| s.take()).unwrap_or_default()
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        RECORDING.fetch_sub(1, Ordering::Relaxed);
        STATE.with(|s| s.replace(self.outer.take()));
    }
}

/// Collects what the slots of one function hold.
#[derive(Debug, Default)]
pub struct Recorder {
    types: Vec<TypeTag>,
    constants: Vec<Constant>,
    callees: Vec<Callee>,
    reverse: Option<CallTarget>,
}

impl Recorder {
    /// Records the type of a slot.
    pub fn ty<T: Value>(&mut self, _: &Slot<T>) {
        self.types.push(T::tag());
    }

    /// Records a type.
    pub fn ty_of<T: Value>(&mut self) {
        self.types.push(T::tag());
    }

    /// Records a type by its tag.
    pub fn tag(&mut self, tag: &TypeTag) {
        self.types.push(tag.clone());
    }

    /// Records a constant.
    pub fn constant<T: Value>(&mut self, value: T) {
        let mut bits = Vec::new();
        value.bits(&mut bits);
        let ty = T::tag();
        self.constants.push(Constant { ty, bits });
    }

    /// A constant whose type is that of a slot.
    pub fn constant_of<T: Value>(&mut self, _: &Slot<T>, value: T) {
        self.constant(value);
    }

    /// A call of a function by its path, behind a closure. `func`: it is a `#[func]`.
    pub(super) fn call<F, C: Invocable<S>, S>(&mut self, _: &Slot<F>, _: &Slot<C>, func: bool) {
        let item = Item::of::<C, S>(type_name::<F>(), func);
        self.enter(&item, None);
    }

    /// A call of a function by its path, with data among the arguments.
    pub fn call_with_data<F, C: Invocable<S>, S>(&mut self, item: &Slot<F>, call: &Slot<C>) {
        let is_data = |tag: &TypeTag| matches!(tag, TypeTag::Data);
        let func = C::params().iter().any(is_data);
        self.call(item, call, func);
    }

    /// A call of a method, behind a closure.
    pub(super) fn method<F: Invocable<S>, S>(
        &mut self,
        _: &Slot<F>,
        name: &'static str,
        func: bool,
    ) {
        let item = Item::of::<F, S>(name, func);
        self.enter(&item, Some((name, F::BUILTIN_RECEIVER)));
    }

    /// An operator of a type of the user.
    pub(super) fn operator<C: Invocable<S>, S>(&mut self, _: C) {
        self.enter(&Item::of::<C, S>("operator", true), None);
    }

    /// An operator of the language.
    pub(super) fn no_operator(&mut self) {
        self.callees.push(Callee {
            target: CallTarget::Builtin("operator".to_string()),
            params: Vec::new(),
            result: TypeTag::Unit,
        });
    }

    /// The function for the reverse sweep, behind a closure.
    pub(super) fn reverse<F, C: Invocable<S>, S>(&mut self, _: &Slot<F>, _: &Slot<C>, func: bool) {
        let item = Item::of::<C, S>(type_name::<F>(), func);
        self.reverse = Some(visit(&item));
    }

    fn enter(&mut self, item: &Item, method: Option<(&str, bool)>) {
        let constructor = constructor(item.name, item.result_name);
        let target = match method {
            Some((name, true)) if builtin::is_method(name) => CallTarget::Method(name.to_string()),
            Some(_) => visit(item),
            None => match builtin::function(item.name) {
                Some(builtin) => builtin,
                None => constructor.unwrap_or_else(|| visit(item)),
            },
        };
        self.callees.push(Callee {
            target,
            params: (item.params)(),
            result: (item.result)(),
        });
    }

    fn finish(self, ast: &'static Ast, result: TypeTag) -> Function {
        Function {
            ast,
            types: self.types,
            constants: self.constants,
            callees: self.callees,
            result,
            reverse: self.reverse,
        }
    }
}

/// What a call constructs, if it is one of a tuple struct or of a variant of its result.
fn constructor(name: &str, result: &str) -> Option<CallTarget> {
    let name = name.strip_suffix("::{{constructor}}")?;
    if name == result {
        return Some(CallTarget::Constructor);
    }
    let variant = name.strip_prefix(result)?.strip_prefix("::")?;
    Some(CallTarget::Variant(variant.to_string()))
}

/// What recording needs of a function item, so that little code is made for each of them.
struct Item {
    name: &'static str,
    /// Whether it is a `#[func]`.
    func: bool,
    result_name: &'static str,
    params: fn() -> Vec<TypeTag>,
    result: fn() -> TypeTag,
    invoke: fn(),
}

impl Item {
    fn of<F: Invocable<S>, S>(name: &'static str, func: bool) -> Item {
        Item {
            name,
            func,
            result_name: F::result_name(),
            params: F::params,
            result: F::result,
            invoke: || {
                if let Some(f) = conjure::<F, S>(PhantomData) {
                    f.call();
                }
            },
        }
    }
}

/// Calls a `#[func]` in recording mode and sees what it describes. Nothing else is called: it would run for real.
fn visit(item: &Item) -> CallTarget {
    with(|s| s.reached = None);
    if item.func {
        (item.invoke)();
    }
    match with(|s| s.reached.take()).flatten() {
        Some(k) => CallTarget::Function(k),
        None => CallTarget::Unknown(item.name.to_string()),
    }
}

/// Beside every `#[func]` that is a method.
#[derive(Debug)]
pub struct IsFunc;
/// Where a method has nothing beside it.
#[derive(Debug)]
pub struct IsPlain;

/// Recording mode inside of a `#[func]`: describes the function, once, and makes a result up.
pub fn record_func<K: 'static, R: Value>(
    _instance: &K,
    ast: &'static Ast,
    fill: &dyn Fn(&mut Recorder),
) -> R {
    describe(TypeId::of::<K>(), ast, R::tag(), fill);
    R::made_up()
}

fn describe(key: TypeId, ast: &'static Ast, result: TypeTag, fill: &dyn Fn(&mut Recorder)) {
    let known = with(|s| s.known.get(&key).copied()).flatten();
    let number = known.unwrap_or_else(|| {
        // Entered before its calls are looked at, because it may call itself.
        let number = with(|s| {
            s.functions
                .push(Recorder::default().finish(ast, result.clone()));
            s.known.insert(key, s.functions.len() - 1);
            s.functions.len() - 1
        });
        let number = number.unwrap_or(0);
        let mut recorder = Recorder::default();
        fill(&mut recorder);
        let function = recorder.finish(ast, result);
        with(|s| s.functions[number] = function);
        number
    });
    with(|s| s.reached = Some(number));
}

/// A kernel with all it calls.
pub(super) fn record_kernel(
    ast: &'static Ast,
    result: TypeTag,
    fill: &dyn Fn(&mut Recorder),
) -> Recording {
    let mode = Mode::enter();
    with(|s| {
        s.functions
            .push(Recorder::default().finish(ast, result.clone()))
    });
    let mut recorder = Recorder::default();
    fill(&mut recorder);
    let kernel = recorder.finish(ast, result);
    let mut functions = mode.finish().functions;
    if let Some(first) = functions.first_mut() {
        *first = kernel;
    }
    Recording { functions }
}

/// A `#[func]` with all it calls, behind a closure that calls nothing else.
pub(super) fn record_function<F: Invocable<S>, S>(f: F) -> Recording {
    let mode = Mode::enter();
    f.call();
    let functions = mode.finish().functions;
    Recording { functions }
}

/// The key of an instance: the type of a closure inside of it.
pub(super) fn instance<K: 'static>(_: &K) -> TypeId {
    TypeId::of::<K>()
}

impl TypeTag {
    /// The type in the IR, for elements.
    pub fn element(&self, structs: &mut Structs) -> Option<wuji_ir::types::Type> {
        match self {
            TypeTag::Element(ty) => Some(ty(structs)),
            TypeTag::Unit | TypeTag::Array(..) | TypeTag::Data | TypeTag::Bundle(_) => None,
        }
    }
}
