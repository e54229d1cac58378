//! Methods of features that are off. A call of one is a compile error that names the feature, where rustc could only report that there
//! is no such method.

#[cfg(any(
    not(feature = "png"),
    not(feature = "viewer"),
    not(feature = "ndarray")
))]
use {crate::field::Field, std::convert::Infallible, wuji_ir::Result};

/// Methods that need a trait which nothing implements.
#[cfg(any(
    not(feature = "png"),
    not(feature = "viewer"),
    not(feature = "ndarray")
))]
macro_rules! methods {
    ($type:ty, $needs:ident: $($name:ident($($arg:ident),*);)*) => {
        #[allow(unreachable_code)]
        impl<T, const D: usize> $type {
            $(
                #[doc(hidden)]
                pub fn $name(&self, $($arg: impl Sized),*) -> Result<()>
                where
                    Self: $needs,
                {
                    $(let _ = $arg;)*
                    match self.off() {}
                }
            )*
        }
    };
}

/// Nothing implements it.
#[cfg(not(feature = "png"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `png` of `wuji`",
    label = "the feature `png` is off",
    note = "turn it on with `cargo add wuji --features png`"
)]
pub trait Png {
    fn off(&self) -> Infallible;
}

#[cfg(not(feature = "png"))]
methods! {
    Field<T, D>, Png:
    save_png(path);
    load_png(path);
}

/// Nothing implements it.
#[cfg(not(feature = "viewer"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `viewer` of `wuji`",
    label = "the feature `viewer` is off",
    note = "turn it on with `cargo add wuji --features viewer`"
)]
pub trait Viewer {
    fn off(&self) -> Infallible;
}

#[cfg(not(feature = "viewer"))]
methods! {
    Field<T, D>, Viewer:
    to_picture();
    copy_from_picture(picture);
}

/// Nothing implements it.
#[cfg(not(feature = "ndarray"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `ndarray` of `wuji`",
    label = "the feature `ndarray` is off",
    note = "turn it on with `cargo add wuji --features ndarray`"
)]
pub trait Ndarray {
    fn off(&self) -> Infallible;
}

#[cfg(not(feature = "ndarray"))]
methods! {
    Field<T, D>, Ndarray:
    to_ndarray();
    copy_from_ndarray(array);
}
