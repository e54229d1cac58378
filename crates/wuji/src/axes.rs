//! The eight named axes and their combinations.
//!
//! The order of axes in a node is the order in memory, slowest first: a node over [`IJ`] keeps cells
//! of one `i` together, one over [`JI`] cells of one `j`. It never changes how a kernel names an
//! element: indices are always in the order of the alphabet.

use smallvec::SmallVec;
use wuji_ir::layout::Axis;

/// Some of the axes `i` to `p`, slowest in memory first.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axes {
    numbers: [u8; Axis::COUNT + 1],
    len: u8,
}

impl Axes {
    const fn new<const N: usize>(axes: [u8; N]) -> Axes {
        let mut numbers = [0; Axis::COUNT + 1];
        let mut k = 0;
        while k < N {
            numbers[k] = axes[k];
            k += 1;
        }
        Axes {
            numbers,
            len: N as u8,
        }
    }

    /// The first nine of some axes.
    pub(crate) fn of(axes: impl Iterator<Item = Axis>) -> Axes {
        let mut all = Axes::new([]);
        for (number, axis) in all.numbers.iter_mut().zip(axes) {
            *number = axis.number() as u8;
            all.len += 1;
        }
        all
    }

    /// How many.
    pub const fn count(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn list(&self) -> SmallVec<[Axis; 3]> {
        self.numbers[..self.count()]
            .iter()
            .filter_map(|n| Axis::new(usize::from(*n)))
            .collect()
    }
}

/// A sequence of axes. More than eight must repeat one, which a layout refuses; so the ninth is kept and the rest dropped.
impl<const N: usize> From<[Axes; N]> for Axes {
    fn from(parts: [Axes; N]) -> Axes {
        let mut all = Axes::new([]);
        for part in parts {
            for number in &part.numbers[..part.count()] {
                if all.count() < all.numbers.len() {
                    all.numbers[all.count()] = *number;
                    all.len += 1;
                }
            }
        }
        all
    }
}

macro_rules! axes {
    ($($name:ident = $($number:literal)*;)*) => {$(
        #[doc = concat!("The axes `", stringify!($name), "`.")]
        pub const $name: Axes = Axes::new([$($number),*]);
    )*};
}

axes! {
    I = 0;
    J = 1;
    K = 2;
    L = 3;
    M = 4;
    N = 5;
    O = 6;
    P = 7;
    IJ = 0 1;
    JI = 1 0;
    IK = 0 2;
    KI = 2 0;
    JK = 1 2;
    KJ = 2 1;
    IJK = 0 1 2;
    IKJ = 0 2 1;
    JIK = 1 0 2;
    JKI = 1 2 0;
    KIJ = 2 0 1;
    KJI = 2 1 0;
    IJKL = 0 1 2 3;
    LKJI = 3 2 1 0;
    IJKLM = 0 1 2 3 4;
    IJKLMN = 0 1 2 3 4 5;
    IJKLMNO = 0 1 2 3 4 5 6;
    IJKLMNOP = 0 1 2 3 4 5 6 7;
}

/// How many cells along each axis of a node: one number for all of them, or one for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extents {
    /// One number for all axes.
    All(i128),
    /// A number for each axis.
    Each(SmallVec<[i128; 3]>),
}

macro_rules! extents {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Extents {
            fn from(extent: $ty) -> Extents {
                Extents::All(extent as i128)
            }
        }

        impl<const D: usize> From<[$ty; D]> for Extents {
            fn from(extents: [$ty; D]) -> Extents {
                Extents::Each(extents.iter().map(|e| *e as i128).collect())
            }
        }
    )*};
}

extents!(i32, u32, i64, u64, usize);

/// Where an element is: `[i, j]`, a number for one axis, `()` for none.
pub trait Coordinates<const D: usize> {
    /// Each coordinate as the number it is; beyond `i64` it saturates, which no field reaches.
    fn coordinates(self) -> [i64; D];
}

impl Coordinates<0> for () {
    fn coordinates(self) -> [i64; 0] {
        []
    }
}

macro_rules! coordinates {
    ($($ty:ty),*) => {$(
        impl<const D: usize> Coordinates<D> for [$ty; D] {
            fn coordinates(self) -> [i64; D] {
                self.map(|c| i64::try_from(c).unwrap_or(i64::MAX))
            }
        }

        impl Coordinates<1> for $ty {
            fn coordinates(self) -> [i64; 1] {
                [i64::try_from(self).unwrap_or(i64::MAX)]
            }
        }
    )*};
}

coordinates!(i32, u32, i64, u64, usize);

/// Where a list is, of something with `D` indices: all of them but the one along the list.
pub trait ListCoordinates<const D: usize> {
    /// The indices.
    fn coordinates(self) -> SmallVec<[i64; 4]>;
}

impl ListCoordinates<1> for () {
    fn coordinates(self) -> SmallVec<[i64; 4]> {
        SmallVec::new()
    }
}

macro_rules! list_coordinates {
    ($ty:ty: $($d:literal $n:literal)*) => {
        $(
            impl ListCoordinates<$d> for [$ty; $n] {
                fn coordinates(self) -> SmallVec<[i64; 4]> {
                    Coordinates::coordinates(self).into_iter().collect()
                }
            }
        )*

        impl ListCoordinates<2> for $ty {
            fn coordinates(self) -> SmallVec<[i64; 4]> {
                Coordinates::coordinates(self).into_iter().collect()
            }
        }
    };
    ($($ty:ty),*) => {
        $(list_coordinates!($ty: 1 0 2 1 3 2 4 3 5 4 6 5 7 6 8 7);)*
    };
}

list_coordinates!(i32, u32, i64, u64, usize);

/// The first `count` axes.
pub(crate) fn first(count: usize) -> Axes {
    let mut axes = IJKLMNOP;
    axes.len = count.min(Axis::COUNT) as u8;
    axes
}
