//! Function items and closures that capture nothing, got back from their types.

use std::marker::PhantomData;

/// A function that is known by its type alone. `Signature` is the tuple of its arguments and result.
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

/// The function whose type is `F`; `None` when the type alone does not say which one, as for
/// function pointers and closures with captures.
///
/// A closure that captures zero-sized values counts as one that captures nothing, so this is for the
/// closures that the macros write, which capture function items at most.
#[doc(hidden)]
pub fn conjure<F: Callable<S>, S>(_: PhantomData<F>) -> Option<F> {
    if size_of::<F>() != 0 {
        return None;
    }
    // SAFETY: `F` has no bytes, so any aligned address can be read. `F` is callable, so on stable Rust it
    // is a function item or a closure, and those are inhabited whenever their type can be named
    // by inference from an expression of that type.
    Some(unsafe { std::ptr::NonNull::<F>::dangling().read() })
}
