//! Recovers function items and non-capturing closures from their types.

use std::marker::PhantomData;

/// A function that is determined by its type. `Signature` is the tuple of its arguments and result.
pub trait Callable<Signature>: Copy {}

macro_rules! callable {
    ($($a:ident)*) => {
        impl<F: Copy + Fn($($a),*) -> R, R, $($a),*> Callable<($($a,)* R,)> for F {}
    };
}
callable!();
callable!(A);
callable!(A B);
callable!(A B C);
callable!(A B C D);
callable!(A B C D E);
callable!(A B C D E F2);
callable!(A B C D E F2 G);
callable!(A B C D E F2 G H);
callable!(A B C D E F2 G H I);
callable!(A B C D E F2 G H I J);
callable!(A B C D E F2 G H I J K);
callable!(A B C D E F2 G H I J K L);

/// The function of type `F`; `None` if the type does not determine it, as for function pointers and closures with
/// captures.
///
/// A closure that captures zero-sized values counts as non-capturing, so this is only for closures from the macros,
/// which capture at most function items.
#[doc(hidden)]
pub fn conjure<F: Callable<S>, S>(_: PhantomData<F>) -> Option<F> {
    if size_of::<F>() != 0 {
        return None;
    }
    // SAFETY: `F` is zero-sized, so any aligned address can be read. `F` is callable, so on stable Rust it is a
    // function item or a closure, and those are inhabited if their type can be inferred from an expression.
    Some(unsafe { std::ptr::NonNull::<F>::dangling().read() })
}
