//! Core errors as a Python exception.

use pyo3::exceptions::{PyException, PyLookupError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use wuji::{Error, Result};

// A class in Python, so that an error of the core is one of the public exceptions wherever it is raised.
pyo3::import_exception!(wuji.exceptions, NativeError);

pyo3::create_exception!(
    wuji._native,
    ArgumentError,
    PyException,
    "A value cannot be converted to the type of a parameter or an element. The cause says why."
);

/// Converts a core error to an exception. Its text is the usual rendering; its parts are attributes.
pub(crate) fn raised(error: &Error) -> PyErr {
    crate::exit::attach(|py| {
        let raised = NativeError::new_err(error.to_string());
        let value = raised.value(py);
        let at = error.at.as_ref();
        let attached = (|| {
            value.setattr("code", error.code)?;
            value.setattr("message", &error.message)?;
            value.setattr("file", at.map(|at| &at.file))?;
            value.setattr("line", at.map_or(0, |at| at.line))?;
            value.setattr("column", at.map_or(0, |at| at.column))?;
            value.setattr("notes", &error.notes)?;
            value.setattr("help", error.help.as_ref())
        })();
        match attached {
            Ok(()) => raised,
            Err(other) => other,
        }
    })
}

/// Raises core errors as exceptions.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raised(&error))
    }
}

/// Marks an exception of a value that cannot be converted, so that it differs from those of signal handlers.
pub(crate) fn unfit(py: Python<'_>, exception: PyErr) -> PyErr {
    let converts = exception.is_instance_of::<PyTypeError>(py)
        || exception.is_instance_of::<PyOverflowError>(py)
        || exception.is_instance_of::<PyValueError>(py)
        || exception.is_instance_of::<PyLookupError>(py);
    if !converts {
        return exception;
    }
    let unfit = ArgumentError::new_err(exception.value(py).to_string());
    unfit.set_cause(py, Some(exception));
    unfit
}
