//! A language and compiler for visual computing: parallel kernels over sparse, differentiable and quantized data.
