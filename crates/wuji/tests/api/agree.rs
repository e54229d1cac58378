//! Tests that a `#[func]` gives the same on the host and in a kernel.

use wuji::prelude::*;

/// The interpreter, and machine code that rounds as written.
pub(crate) fn worlds() -> [World; 2] {
    let compiled = World::builder().math(Math::Strict).threads(2).build();
    [World::interpreter().unwrap(), compiled.unwrap()]
}

/// Defines functions, and a test that calls each on the host and from a kernel.
macro_rules! agree {
    ($($(#[$attr:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block
       with $(($($value:expr),*)),+;)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[func]
            $(#[$attr])*
            fn compute($($arg: $ty),*) -> $ret $body

            #[kernel]
            fn run(world: &World, $($arg: $ty),*) -> $ret {
                compute($($arg),*)
            }

            #[test]
            fn host_and_kernel_agree() {
                for world in $crate::agree::worlds() { $(
                    let expected = compute($($value),*);
                    let found = run(&world, $($value),*).unwrap_or_else(|e| panic!("{e}"));
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", stringify!($($value),*));
                )+ }
            }
        }
    )*};
}
