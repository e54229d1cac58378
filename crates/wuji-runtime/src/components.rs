//! Short arrays viewed as structs with named components, so that `v.x` works on a generic vector.

macro_rules! view {
    ($($name:ident $n:literal { $($c:ident),* })*) => {$(
        #[doc = concat!("An array of ", stringify!($n), " under the names of its components.")]
        #[derive(Copy, Clone, Debug, PartialEq)]
        #[repr(C)]
        pub struct $name<T> {
            $(
                #[doc = concat!("The component `", stringify!($c), "`.")]
                pub $c: T,
            )*
        }

        impl<T> $name<T> {
            /// The array under the names of its components.
            #[inline]
            pub fn of(array: &[T; $n]) -> &$name<T> {
                const { assert!(size_of::<[T; $n]>() == size_of::<$name<T>>()) };
                // SAFETY: a `repr(C)` struct of n fields of one type is laid out like an array of n.
                unsafe { &*std::ptr::from_ref(array).cast() }
            }

            /// The array under the names of its components, to be changed.
            #[inline]
            pub fn of_mut(array: &mut [T; $n]) -> &mut $name<T> {
                const { assert!(size_of::<[T; $n]>() == size_of::<$name<T>>()) };
                // SAFETY: as in `of`; the borrow is exclusive and passed on.
                unsafe { &mut *std::ptr::from_mut(array).cast() }
            }
        }
    )*};
}

view! {
    X 1 { x }
    Xy 2 { x, y }
    Xyz 3 { x, y, z }
    Xyzw 4 { x, y, z, w }
}
