//! Image files: PNG input and output, GIF and MP4 output.

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use wuji_viewer::Picture;

/// Converts rows of RGB from top to bottom.
fn picture(width: usize, height: usize, rgb: &[u8]) -> PyResult<Picture> {
    let size = width.checked_mul(height).and_then(|n| n.checked_mul(3));
    if size != Some(rgb.len()) {
        let n = rgb.len();
        let what = format!("{n} bytes do not fit an image of {width}x{height} RGB pixels");
        return Err(PyValueError::new_err(what));
    }
    Ok(Picture {
        width,
        height,
        pixels: rgb.as_chunks().0.to_vec(),
    })
}

/// Encodes frames to a file: `x.gif`, or `x.mp4` with `ffmpeg`.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Recording {
    /// `None` after `finish`.
    recording: Mutex<Option<wuji_viewer::Recording>>,
}

#[pymethods]
impl Recording {
    #[new]
    fn new(path: PathBuf, fps: f64) -> PyResult<Recording> {
        Ok(Recording {
            recording: Mutex::new(Some(wuji_viewer::Recording::new(path, fps)?)),
        })
    }

    /// Adds a frame: rows of RGB from top to bottom.
    fn push(&self, py: Python<'_>, width: usize, height: usize, rgb: &[u8]) -> PyResult<()> {
        let picture = picture(width, height, rgb)?;
        crate::exit::detach(py, || {
            let mut recording = self
                .recording
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            match recording.as_mut() {
                Some(recording) => Ok(recording.push(&picture)?),
                None => Err(PyRuntimeError::new_err("the recording is finished")),
            }
        })
    }

    /// Completes the file.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        crate::exit::detach(py, || {
            let mut recording = self
                .recording
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(recording) = recording.take() {
                recording.finish()?;
            }
            Ok(())
        })
    }
}

/// Reads a PNG file: width, height, channels (1 to 4) and rows, 8 bits per channel.
#[pyfunction]
pub(crate) fn read_png(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(u32, u32, usize, Bound<'_, PyBytes>)> {
    let (width, height, channels, bytes) = crate::exit::detach(py, || {
        let mut decoder = png::Decoder::new(BufReader::new(File::open(&path)?));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let failed = |what: &dyn std::fmt::Display| {
            PyOSError::new_err(format!("cannot read {}: {what}", path.display()))
        };
        let mut reader = decoder.read_info().map_err(|e| failed(&e))?;
        let size = reader
            .output_buffer_size()
            .ok_or_else(|| failed(&"it is too large"))?;
        let mut bytes = vec![0; size];
        let info = reader.next_frame(&mut bytes).map_err(|e| failed(&e))?;
        bytes.truncate(info.buffer_size());
        PyResult::Ok((info.width, info.height, info.color_type.samples(), bytes))
    })?;
    Ok((width, height, channels, PyBytes::new(py, &bytes)))
}

/// Writes rows from top to bottom with 1 to 4 bytes per pixel: gray, gray and alpha, RGB, RGBA.
#[pyfunction]
pub(crate) fn write_png(
    py: Python<'_>,
    path: PathBuf,
    width: u32,
    height: u32,
    channels: usize,
    bytes: &[u8],
) -> PyResult<()> {
    let color = match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        n => {
            let what = format!("an image has 1 to 4 channels, not {n}");
            return Err(PyValueError::new_err(what));
        }
    };
    crate::exit::detach(py, || {
        let failed = |e: png::EncodingError| {
            PyOSError::new_err(format!("cannot write {}: {e}", path.display()))
        };
        let mut encoder = png::Encoder::new(BufWriter::new(File::create(&path)?), width, height);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(bytes).map_err(failed)?;
        writer.finish().map_err(failed)
    })
}
