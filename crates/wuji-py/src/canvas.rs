//! The canvas of `GUI`: shapes and images on a NumPy array.

use crate::buffer::{BorrowedArray, View};
use half::f16;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyTuple};
use wuji::dynamic::Owner;
use wuji_ir::types::Scalar;
use wuji_viewer::framebuffer::text_width as width_of_text;
use wuji_viewer::{Framebuffer, Picture, Pixel, opaque};

/// Draws on an array of RGBA floats, indexed `[x, y]` with x to the right and y up.
///
/// Positions are normalized to [0, 1]; radii are in pixels.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Canvas {
    pixels: PinnedPixels,
    width: usize,
    height: usize,
    image: Py<PyAny>,
}

/// The memory of the array. The view keeps its address and size.
struct PinnedPixels(View);

// SAFETY: the memory is only used, and the view only released, with the GIL held.
unsafe impl Send for PinnedPixels {}
// SAFETY: as above.
unsafe impl Sync for PinnedPixels {}

#[pymethods]
impl Canvas {
    #[new]
    fn new(image: Bound<'_, PyAny>) -> PyResult<Canvas> {
        let found = BorrowedArray::of(&image, None)?.ok_or_else(|| no_array(&image))?;
        let [width, height, 4] = *found.extents() else {
            return Err(PyValueError::new_err("an image has shape (w, h, 4)"));
        };
        let (owner, base) = found.memory;
        let ours = found.scalar == Scalar::F32 && found.is_contiguous() && owner == Owner::Host;
        if !ours || !base.cast::<Pixel>().is_aligned() {
            let what = "the pixels must be contiguous floats of 32 bits";
            return Err(PyValueError::new_err(what));
        }
        let view = View::new(&image, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_WRITABLE)?;
        Ok(Canvas {
            pixels: PinnedPixels(view),
            width: width as usize,
            height: height as usize,
            image: image.unbind(),
        })
    }

    /// The array.
    #[getter]
    fn image(&self, py: Python<'_>) -> Py<PyAny> {
        self.image.clone_ref(py)
    }

    #[getter]
    fn width(&self) -> usize {
        self.width
    }

    #[getter]
    fn height(&self) -> usize {
        self.height
    }

    fn clear(&self, py: Python<'_>, color: &Bound<'_, PyAny>) -> PyResult<()> {
        let color = rgb(color)?;
        self.frame(py).clear(color);
        Ok(())
    }

    fn circle(
        &self,
        py: Python<'_>,
        center: &Bound<'_, PyAny>,
        radius: f64,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (center, color) = (position(center)?, rgb(color)?);
        let center = self.on_a_pixel(center);
        self.frame(py).circle(center, radius, color);
        Ok(())
    }

    /// Draws a circle at each row of an array. Radii and colors are numbers, or arrays with one for each.
    fn circles(
        &self,
        py: Python<'_>,
        centers: &Bound<'_, PyAny>,
        radius: &Bound<'_, PyAny>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let centers = self.points(centers)?;
        let radius = self.radii(radius, centers.count)?;
        let colors = self.colors(color, centers.count)?;
        let mut frame = self.frame(py);
        for k in 0..centers.count {
            let center = self.on_a_pixel(centers.get(k));
            frame.circle(center, radius.get(k), colors.get(k));
        }
        Ok(())
    }

    fn line(
        &self,
        py: Python<'_>,
        begin: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        radius: f64,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let ends = [position(begin)?, position(end)?].map(|p| self.scaled(p));
        let color = rgb(color)?;
        self.frame(py).line(ends[0], ends[1], radius, color);
        Ok(())
    }

    /// Draws lines between the rows of two arrays. Radii and colors are numbers, or arrays with one for each.
    fn lines(
        &self,
        py: Python<'_>,
        begin: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        radius: &Bound<'_, PyAny>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let [begin, end] = self.same_count([begin, end])?;
        let radius = self.radii(radius, begin.count)?;
        let colors = self.colors(color, begin.count)?;
        let mut frame = self.frame(py);
        for k in 0..begin.count {
            let [begin, end] = [begin.get(k), end.get(k)].map(|p| self.scaled(p));
            frame.line(begin, end, radius.get(k), colors.get(k));
        }
        Ok(())
    }

    fn triangle(
        &self,
        py: Python<'_>,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        c: &Bound<'_, PyAny>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let corners = [position(a)?, position(b)?, position(c)?].map(|p| self.scaled(p));
        let color = rgb(color)?;
        self.frame(py).triangle(corners, color);
        Ok(())
    }

    /// Draws triangles with corners at the rows of three arrays. Colors are a number, or an array with one for each.
    fn triangles(
        &self,
        py: Python<'_>,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        c: &Bound<'_, PyAny>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let corners = self.same_count([a, b, c])?;
        let colors = self.colors(color, corners[0].count)?;
        let mut frame = self.frame(py);
        for k in 0..corners[0].count {
            let [a, b, c] = &corners;
            let corners = [a.get(k), b.get(k), c.get(k)].map(|p| self.scaled(p));
            frame.triangle(corners, colors.get(k));
        }
        Ok(())
    }

    /// Fills a rectangle, in pixels.
    fn rectangle(
        &self,
        py: Python<'_>,
        x: i64,
        y: i64,
        width: i64,
        height: i64,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let color = rgb(color)?;
        self.frame(py).rectangle([x, y], [width, height], color);
        Ok(())
    }

    /// Draws text. `x` is the left edge and `top` the upper edge of its first line, in pixels.
    fn text(
        &self,
        py: Python<'_>,
        content: &str,
        x: f64,
        top: f64,
        size: f64,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let color = rgb(color)?;
        self.frame(py).text(content, [x, top], size, color);
        Ok(())
    }

    /// Replaces all pixels by an image of the same size: gray, or with one to four channels.
    fn set_image(&self, py: Python<'_>, image: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = self.borrow(image)?;
        let (extents, strides) = (source.extents(), source.strides());
        let (channels, step) = match (extents, strides) {
            ([_, _], _) => (1, 0),
            ([_, _, channels @ 1..=4], [_, _, step]) => (*channels, *step),
            _ => return Err(PyValueError::new_err("an image has up to four channels")),
        };
        if extents[..2] != [self.width as i64, self.height as i64] {
            let what = "the image and the canvas differ in size";
            return Err(PyValueError::new_err(what));
        }
        let texels = Texels {
            base: source.memory.1,
            strides: [strides[0], strides[1], step],
            channels,
        };
        let mut frame = self.frame(py);
        let target = (frame.pixels_mut(), self.height);
        match source.scalar {
            Scalar::Bool => texels.copy(target, |v: u8| f32::from(u8::from(v != 0))),
            Scalar::U8 => texels.copy(target, |v: u8| f32::from(v) / 255.0),
            Scalar::U16 => texels.copy(target, |v: u16| f32::from(v) / 65535.0),
            Scalar::U32 => {
                texels.copy(target, |v: u32| (f64::from(v) / f64::from(u32::MAX)) as f32)
            }
            Scalar::U64 => texels.copy(target, |v: u64| (v as f64 / u64::MAX as f64) as f32),
            Scalar::F16 => texels.copy(target, |v: u16| f16::from_bits(v).to_f32()),
            Scalar::F32 => texels.copy(target, |v: f32| v),
            Scalar::F64 => texels.copy(target, |v: f64| v as f32),
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
                let what = "an image has floats or unsigned integers";
                return Err(PyValueError::new_err(what));
            }
        }
        Ok(())
    }

    /// Draws a scalar field as colors: those of [0, 1], or of its own range.
    fn contour(&self, py: Python<'_>, values: &Bound<'_, PyAny>, normalize: bool) -> PyResult<()> {
        let source = self.borrow(values)?;
        let (&[width, height], &[across, up]) = (source.extents(), source.strides()) else {
            return Err(PyValueError::new_err("a scalar field has two axes"));
        };
        let value = |i: usize, j: usize| {
            // SAFETY: the callers pass indices below the extents.
            unsafe { read(&source, across * i as i64 + up * j as i64) }
        };
        let shape = [width as usize, height as usize];
        let mut range = [0.0, 1.0];
        if normalize {
            range = [f64::INFINITY, f64::NEG_INFINITY];
            for i in 0..shape[0] {
                let finite = (0..shape[1]).map(|j| value(i, j)).filter(|v| v.is_finite());
                finite.for_each(|v| range = [range[0].min(v), range[1].max(v)]);
            }
        }
        self.frame(py).contour(shape, value, range);
        Ok(())
    }

    /// Returns rows of RGB from top to bottom, with one byte per channel.
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.picture(py).pixels.as_flattened())
    }
}

impl Canvas {
    pub(crate) fn picture(&self, py: Python<'_>) -> Picture {
        self.frame(py).to_picture()
    }

    /// The pixels to draw on. No Python code runs while it exists.
    fn frame<'a>(&'a self, _: Python<'a>) -> Framebuffer<&'a mut [Pixel]> {
        let (base, size) = self.pixels.0.bytes();
        let count = size / size_of::<Pixel>();
        // SAFETY: the view pins this many bytes, and they are aligned. Sources of pixels and positions that overlap them are refused. The GIL is held:
        // another thread cannot use the array during the call.
        let pixels = unsafe { std::slice::from_raw_parts_mut(base.cast(), count) };
        Framebuffer::over(self.width, self.height, pixels).expect("the array has this shape")
    }

    fn scaled(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [x * self.width as f64, y * self.height as f64]
    }

    /// Circles are centered on pixels: (0.5, 0.5) is the center of a pixel, if extents are even. Lines and triangles are not.
    fn on_a_pixel(&self, center: [f64; 2]) -> [f64; 2] {
        self.scaled(center).map(|c| c + 0.5)
    }

    /// Borrows an array of numbers that does not overlap the canvas.
    fn borrow<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<BorrowedArray<'py>> {
        let found = BorrowedArray::of(value, None)?.ok_or_else(|| no_array(value))?;
        let (owner, base) = found.memory;
        if owner != Owner::Host {
            return Err(PyValueError::new_err("the array is on a GPU"));
        }
        let (mut first, mut last) = (base as i128, base as i128);
        for (extent, stride) in found.extents().iter().zip(found.strides()) {
            let far = i128::from(*stride) * i128::from(*extent - 1);
            first += far.min(0);
            last += far.max(0);
        }
        let (start, size) = self.pixels.0.bytes();
        let (start, end) = (start as i128, start as i128 + size as i128);
        let bytes = i128::from(found.scalar.bytes());
        if !found.extents().contains(&0) && first < end && last + bytes > start {
            let what = "the array shares memory with the canvas";
            return Err(PyValueError::new_err(what));
        }
        Ok(found)
    }

    fn points<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Points<'py>> {
        let array = self.borrow(value)?;
        let (&[count, 2], &[step, second]) = (array.extents(), array.strides()) else {
            return Err(PyValueError::new_err("positions have shape (n, 2)"));
        };
        Ok(Points {
            array,
            count: count as usize,
            step,
            second,
        })
    }

    fn same_count<'py, const N: usize>(
        &self,
        values: [&Bound<'py, PyAny>; N],
    ) -> PyResult<[Points<'py>; N]> {
        let points = values.into_iter().map(|v| self.points(v));
        let points: Vec<Points<'py>> = points.collect::<PyResult<_>>()?;
        let same = points.iter().all(|p| p.count == points[0].count);
        let points = <[Points<'py>; N]>::try_from(points).ok();
        points
            .filter(|_| same)
            .ok_or_else(|| PyValueError::new_err("the arrays differ in length"))
    }

    fn radii<'py>(&self, value: &Bound<'py, PyAny>, count: usize) -> PyResult<Each<'py, f64>> {
        self.each(value, count, |value| value.extract(), |radius| radius)
    }

    fn colors<'py>(&self, value: &Bound<'py, PyAny>, count: usize) -> PyResult<Each<'py, Pixel>> {
        self.each(value, count, rgb, |color| opaque(color as i64 as u32))
    }

    /// A number for all shapes, or an array with a number for each.
    fn each<'py, T>(
        &self,
        value: &Bound<'py, PyAny>,
        count: usize,
        one: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
        convert: fn(f64) -> T,
    ) -> PyResult<Each<'py, T>> {
        if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
            return Ok(Each::One(one(value)?));
        }
        let array = self.borrow(value)?;
        let (&[found], &[step]) = (array.extents(), array.strides()) else {
            return Err(PyValueError::new_err("an array with one axis is needed"));
        };
        if found as usize != count {
            let what = format!("{found} values for {count} shapes");
            return Err(PyValueError::new_err(what));
        }
        Ok(Each::Many {
            array: Box::new(array),
            step,
            convert,
        })
    }
}

/// Positions in the rows of an array.
struct Points<'py> {
    array: BorrowedArray<'py>,
    count: usize,
    /// In bytes.
    step: i64,
    second: i64,
}

impl Points<'_> {
    fn get(&self, k: usize) -> [f64; 2] {
        let at = self.step * k as i64;
        // SAFETY: the callers pass numbers below `count`, and a row has two components.
        unsafe { [read(&self.array, at), read(&self.array, at + self.second)] }
    }
}

/// A radius or color for each shape.
enum Each<'py, T> {
    One(T),
    Many {
        array: Box<BorrowedArray<'py>>,
        /// In bytes.
        step: i64,
        convert: fn(f64) -> T,
    },
}

impl<T: Copy> Each<'_, T> {
    fn get(&self, k: usize) -> T {
        match self {
            Each::One(value) => *value,
            Each::Many {
                array,
                step,
                convert,
            } => {
                // SAFETY: the callers pass numbers below the length.
                convert(unsafe { read(array, step * k as i64) })
            }
        }
    }
}

/// Reads an element.
///
/// # Safety
/// There is one at this offset in bytes, in host memory.
unsafe fn read(array: &BorrowedArray<'_>, offset: i64) -> f64 {
    let at = array.memory.1.wrapping_offset(offset as isize).cast_const();
    // SAFETY: the caller knows that the element exists.
    unsafe {
        match array.scalar {
            Scalar::F32 => f64::from(at.cast::<f32>().read_unaligned()),
            Scalar::F64 => at.cast::<f64>().read_unaligned(),
            Scalar::F16 => f16::from_bits(at.cast::<u16>().read_unaligned()).to_f64(),
            Scalar::Bool => f64::from(u8::from(at.read() != 0)),
            Scalar::I8 => f64::from(at.cast::<i8>().read()),
            Scalar::I16 => f64::from(at.cast::<i16>().read_unaligned()),
            Scalar::I32 => f64::from(at.cast::<i32>().read_unaligned()),
            Scalar::I64 => at.cast::<i64>().read_unaligned() as f64,
            Scalar::U8 => f64::from(at.read()),
            Scalar::U16 => f64::from(at.cast::<u16>().read_unaligned()),
            Scalar::U32 => f64::from(at.cast::<u32>().read_unaligned()),
            Scalar::U64 => at.cast::<u64>().read_unaligned() as f64,
        }
    }
}

/// The source of an image: as large as the canvas, in host memory.
struct Texels {
    base: *const u8,
    /// In bytes: x, y, channel.
    strides: [i64; 3],
    channels: i64,
}

impl Texels {
    /// Replaces all pixels. Gray is copied to all channels; channels that are missing become 0.
    fn copy<T: Copy>(&self, target: (&mut [Pixel], usize), convert: impl Fn(T) -> f32) {
        let (base, [_, _, step]) = (self.base, self.strides);
        let channel = |at: i64, k: i64| {
            let at = base.wrapping_offset((at + k * step) as isize).cast::<T>();
            // SAFETY: it is a channel of a texel of the source, which has elements of this type.
            convert(unsafe { at.read_unaligned() })
        };
        match self.channels {
            1 => self.fill(target, |at| [channel(at, 0); 4]),
            2 => self.fill(target, |at| [channel(at, 0), channel(at, 1), 0.0, 0.0]),
            3 if step == size_of::<T>() as i64 => self.fill(target, |at| {
                let at = base.wrapping_offset(at as isize).cast::<[T; 3]>();
                // SAFETY: as above; the three channels are next to each other.
                let [r, g, b] = unsafe { at.read_unaligned() }.map(&convert);
                [r, g, b, 0.0]
            }),
            3 => self.fill(target, |at| {
                [channel(at, 0), channel(at, 1), channel(at, 2), 0.0]
            }),
            _ => self.fill(target, |at| [0, 1, 2, 3].map(|k| channel(at, k))),
        }
    }

    /// Calls `texel` with the offset of each texel.
    fn fill(&self, (pixels, height): (&mut [Pixel], usize), texel: impl Fn(i64) -> Pixel) {
        for (x, column) in pixels.chunks_exact_mut(height.max(1)).enumerate() {
            let start = self.strides[0] * x as i64;
            for (y, pixel) in column.iter_mut().enumerate() {
                *pixel = texel(start + self.strides[1] * y as i64);
            }
        }
    }
}

/// Returns the width of a text in pixels.
#[pyfunction]
pub(crate) fn text_width(content: &str, size: f64) -> f64 {
    width_of_text(content, size)
}

fn no_array(value: &Bound<'_, PyAny>) -> PyErr {
    let name = value.get_type().name().map(|n| n.to_string());
    let name = name.unwrap_or_default();
    PyTypeError::new_err(format!("an array of numbers is needed, not `{name}`"))
}

/// The first two numbers of a tuple, list, array, vector or field.
fn position(value: &Bound<'_, PyAny>) -> PyResult<[f64; 2]> {
    let found = if let Ok(tuple) = value.cast::<PyTuple>() {
        pair(tuple.len(), |k| tuple.get_item(k)?.extract())
    } else if let Ok(list) = value.cast::<PyList>() {
        pair(list.len(), |k| list.get_item(k)?.extract())
    } else {
        items(value).or_else(|error| match value.call_method0("to_numpy") {
            Ok(array) => items(&array),
            Err(_) => Err(error),
        })
    };
    found.map_err(|error| {
        let Ok(shown) = value.repr() else {
            return error;
        };
        PyValueError::new_err(format!("a position needs two numbers, not {shown}"))
    })
}

fn items(value: &Bound<'_, PyAny>) -> PyResult<[f64; 2]> {
    pair(value.len()?, |k| value.get_item(k)?.extract())
}

fn pair(length: usize, get: impl Fn(usize) -> PyResult<f64>) -> PyResult<[f64; 2]> {
    if length < 2 {
        return Err(PyValueError::new_err("a position needs two numbers"));
    }
    Ok([get(0)?, get(1)?])
}

/// A color, such as `0x3388ff`. A fourth byte is ignored.
fn rgb(value: &Bound<'_, PyAny>) -> PyResult<Pixel> {
    value.extract().map(opaque).map_err(|_: PyErr| {
        let shown = value.repr().map(|r| r.to_string()).unwrap_or_default();
        let what = format!("a color is an integer such as 0x3388ff, not {shown}");
        PyTypeError::new_err(what)
    })
}
