//! What programs take and give: slices, fields and sparse matrices, alone or in tuples.

use crate::real::Real;
use crate::sparse::{Csc, Csr};
use crate::sym::Sym;
use wuji::{Element, Field};
use wuji_ir::Result;
use wuji_ir::types::Scalar;

/// The scalar of a program: `f32` or `f64`.
pub trait Number: Real + Element {
    /// Its type in the IR.
    const SCALAR: Scalar;
}

impl Number for f32 {
    const SCALAR: Scalar = Scalar::F32;
}

impl Number for f64 {
    const SCALAR: Scalar = Scalar::F64;
}

/// What must not change between the trace and a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub(crate) kind: &'static str,
    pub(crate) elements: usize,
    /// Of the pattern of a sparse matrix.
    pub(crate) fingerprint: u64,
}

/// The numbers of one input.
#[derive(Debug)]
pub enum Values<'a, T> {
    /// In memory of the host.
    Slice(&'a [T]),
    /// In a field.
    Field(&'a Field<T, 1>),
}

/// Symbols for the elements of inputs, in order.
#[derive(Debug)]
pub struct Symbols<'a>(pub(crate) std::slice::Iter<'a, Vec<Sym>>);

impl Symbols<'_> {
    /// Those of the next input.
    pub fn take(&mut self) -> Vec<Sym> {
        self.0.next().cloned().unwrap_or_default()
    }
}

/// The inputs of a program. While tracing only their shapes count.
pub trait Inputs {
    /// The type of the elements.
    type Number: Number;
    /// What the traced function gets.
    type Symbols;

    /// Adds the shape of each input.
    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()>;
    /// What the traced function gets, from symbols for the elements.
    fn symbols(&self, next: &mut Symbols<'_>) -> Self::Symbols;
    /// Calls a function with the numbers of each input.
    fn values(&self, each: &mut dyn FnMut(Values<'_, Self::Number>) -> Result<()>) -> Result<()>;
}

/// The outputs of a traced function.
pub trait Outputs: Sized {
    /// What is known of them before a run.
    type Shape;
    /// What a run gives.
    type Numbers<T: Number>;

    /// Adds the symbols of each output.
    fn split(self, to: &mut Vec<Vec<Sym>>) -> Self::Shape;
    /// Makes outputs from the numbers of each of them.
    fn join<T: Number>(shape: &Self::Shape, next: &mut dyn FnMut() -> Vec<T>) -> Self::Numbers<T>;
}

fn dense(kind: &'static str, elements: usize) -> Shape {
    Shape {
        kind,
        elements,
        fingerprint: 0,
    }
}

impl<T: Number> Inputs for &[T] {
    type Number = T;
    type Symbols = Vec<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        shapes.push(dense("a vector", self.len()));
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Vec<Sym> {
        next.take()
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(self))
    }
}

impl<T: Number> Inputs for &Vec<T> {
    type Number = T;
    type Symbols = Vec<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        self.as_slice().shapes(shapes)
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Vec<Sym> {
        next.take()
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(self))
    }
}

/// Any number of inputs.
impl<T: Number> Inputs for &[Vec<T>] {
    type Number = T;
    type Symbols = Vec<Vec<Sym>>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        self.iter()
            .try_for_each(|input| (&input[..]).shapes(shapes))
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Vec<Vec<Sym>> {
        self.iter().map(|_| next.take()).collect()
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|input| each(Values::Slice(input)))
    }
}

/// A field is an input like a slice of its elements. It may be in the memory of a GPU.
impl<T: Number> Inputs for &Field<T, 1> {
    type Number = T;
    type Symbols = Vec<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        shapes.push(dense("a vector", self.len()? as usize));
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Vec<Sym> {
        next.take()
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Field(self))
    }
}

/// The entries are inputs; the pattern is fixed.
impl<T: Number> Inputs for &Csr<T> {
    type Number = T;
    type Symbols = Csr<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        shapes.push(Shape {
            kind: "a sparse matrix by rows",
            elements: Csr::values(self).len(),
            fingerprint: self.fingerprint(),
        });
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Csr<Sym> {
        let (pattern, _) = (*self).clone().into_parts();
        Csr::from_parts(&pattern, next.take())
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(Csr::values(self)))
    }
}

impl<T: Number> Inputs for &Csc<T> {
    type Number = T;
    type Symbols = Csc<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        self.by_rows().shapes(shapes)?;
        if let Some(last) = shapes.last_mut() {
            last.kind = "a sparse matrix by columns";
        }
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Csc<Sym> {
        Csc::from_rows(self.by_rows().symbols(next))
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(Csc::values(self)))
    }
}

macro_rules! tuples {
    ($($first:ident $($rest:ident)*;)*) => {$(
        impl<$first: Inputs, $($rest: Inputs<Number = $first::Number>),*> Inputs for ($first, $($rest,)*) {
            type Number = $first::Number;
            type Symbols = ($first::Symbols, $($rest::Symbols,)*);

            #[allow(non_snake_case)]
            fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
                let ($first, $($rest,)*) = self;
                $first.shapes(shapes)?;
                $($rest.shapes(shapes)?;)*
                Ok(())
            }

            #[allow(non_snake_case)]
            fn symbols(&self, next: &mut Symbols<'_>) -> Self::Symbols {
                let ($first, $($rest,)*) = self;
                ($first.symbols(next), $($rest.symbols(next),)*)
            }

            #[allow(non_snake_case)]
            fn values(&self, each: &mut dyn FnMut(Values<'_, Self::Number>) -> Result<()>) -> Result<()> {
                let ($first, $($rest,)*) = self;
                $first.values(each)?;
                $($rest.values(each)?;)*
                Ok(())
            }
        }

        impl<$first: Outputs, $($rest: Outputs),*> Outputs for ($first, $($rest,)*) {
            type Shape = ($first::Shape, $($rest::Shape,)*);
            type Numbers<Scalar: Number> = ($first::Numbers<Scalar>, $($rest::Numbers<Scalar>,)*);

            #[allow(non_snake_case)]
            fn split(self, to: &mut Vec<Vec<Sym>>) -> Self::Shape {
                let ($first, $($rest,)*) = self;
                ($first.split(to), $($rest.split(to),)*)
            }

            #[allow(non_snake_case)]
            fn join<Scalar: Number>(shape: &Self::Shape, next: &mut dyn FnMut() -> Vec<Scalar>) -> Self::Numbers<Scalar> {
                let ($first, $($rest,)*) = shape;
                (<$first as Outputs>::join($first, next), $(<$rest as Outputs>::join($rest, next),)*)
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

impl Outputs for Sym {
    type Shape = ();
    type Numbers<T: Number> = T;

    fn split(self, to: &mut Vec<Vec<Sym>>) {
        to.push(vec![self]);
    }

    fn join<T: Number>(_: &(), next: &mut dyn FnMut() -> Vec<T>) -> T {
        next().pop().unwrap_or_else(<T as Real>::zero)
    }
}

impl Outputs for Vec<Sym> {
    type Shape = ();
    type Numbers<T: Number> = Vec<T>;

    fn split(self, to: &mut Vec<Vec<Sym>>) {
        to.push(self);
    }

    fn join<T: Number>(_: &(), next: &mut dyn FnMut() -> Vec<T>) -> Vec<T> {
        next()
    }
}

/// Any number of outputs.
impl Outputs for Vec<Vec<Sym>> {
    type Shape = usize;
    type Numbers<T: Number> = Vec<Vec<T>>;

    fn split(self, to: &mut Vec<Vec<Sym>>) -> usize {
        let count = self.len();
        to.extend(self);
        count
    }

    fn join<T: Number>(count: &usize, next: &mut dyn FnMut() -> Vec<T>) -> Vec<Vec<T>> {
        (0..*count).map(|_| next()).collect()
    }
}

/// The pattern comes from the trace.
impl Outputs for Csr<Sym> {
    type Shape = Csr<()>;
    type Numbers<T: Number> = Csr<T>;

    fn split(self, to: &mut Vec<Vec<Sym>>) -> Csr<()> {
        let (pattern, values) = self.into_parts();
        to.push(values);
        pattern
    }

    fn join<T: Number>(pattern: &Csr<()>, next: &mut dyn FnMut() -> Vec<T>) -> Csr<T> {
        Csr::from_parts(pattern, next())
    }
}

impl Outputs for Csc<Sym> {
    type Shape = Csr<()>;
    type Numbers<T: Number> = Csc<T>;

    fn split(self, to: &mut Vec<Vec<Sym>>) -> Csr<()> {
        self.into_rows().split(to)
    }

    fn join<T: Number>(pattern: &Csr<()>, next: &mut dyn FnMut() -> Vec<T>) -> Csc<T> {
        Csc::from_rows(Csr::from_parts(pattern, next()))
    }
}

/// A function that may fail: `Program::trace` gives its error.
pub trait Traced {
    /// The outputs.
    type Outputs: Outputs;
    /// The outputs, or the error.
    fn outputs(self) -> Result<Self::Outputs>;
}

impl<O: Outputs> Traced for O {
    type Outputs = O;

    fn outputs(self) -> Result<O> {
        Ok(self)
    }
}

impl<O: Outputs> Traced for Result<O> {
    type Outputs = O;

    fn outputs(self) -> Result<O> {
        self
    }
}
