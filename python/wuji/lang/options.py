"""Options of `init`: names, defaults, and their translation for the core."""

from __future__ import annotations

import operator
import os
import sys
from typing import Any

from .. import _native
from ..exceptions import NotYet, WujiOptionError, WujiRuntimeError
from . import arch as archs
from . import dtypes, libdevice
from .arch import Arch

# Options that have an effect.
_ACTIVE: dict[str, Any] = {
    "log_level": "info",
    "short_circuit_operators": True,
    "print_full_traceback": False,
    "unrolling_limit": 32,
    "debug": False,
    "check_out_of_bound": False,
    "cpu_max_num_threads": 0,  # all cores
    "fast_math": True,
    "kernel_profiler": False,
    "offline_cache": True,
    "offline_cache_file_path": "",
    "offline_cache_max_size_of_files": 0,
    "print_ir": False,
    "print_preprocessed_ir": False,
    "random_seed": 0,
    "verbose": True,
    "make_cpu_multithreading_loop": True,
    "quant_opt_atomic_demotion": True,
    "quant_opt_store_fusion": True,
    # Lazy launches: the names are those of Taichi's asynchronous engine, up to version 1.0.4.
    "async_mode": False,
    "async_opt_fusion": True,
    "async_opt_dse": True,
    "async_flush_every": 64,
    # Extensions to Taichi's options.
    "check_precision": -1,  # off
    "deterministic": False,
    "interpreter": False,
    "libdevice": "",  # search
    "memory_limit": 0,
    "tier": "",
    "time_limit": 0.0,
    "wait_for_launches": False,
    "without": "",
}

# Options without effect: accepted, and stored in `ti.cfg`. docs/python/options.md gives the reasons.
_IGNORED: dict[str, Any] = {
    "ad_stack_size": 0,
    "advanced_optimization": True,
    "allow_nv_shader_extension": True,
    "auto_mesh_local_default_occupacy": 4,
    "cache_loop_invariant_global_vars": True,
    "cfg_optimization": True,
    "cpu_block_dim_adaptive": True,
    "cuda_stack_limit": 0,
    "default_ad_stack_size": 32,
    "default_cpu_block_dim": 32,
    "default_gpu_block_dim": 128,
    "demote_dense_struct_fors": True,
    "demote_no_access_mesh_fors": True,
    "detect_read_only": True,
    "device_memory_GB": 1.0,
    "device_memory_fraction": 0.0,
    "experimental_auto_mesh_local": False,
    "flatten_if": False,
    "force_scalarize_matrix": False,
    "gdb_trigger": False,
    "gpu_max_reg": 0,
    "half2_vectorization": False,
    "lower_access": True,
    "make_block_local": True,
    "make_mesh_block_local": True,
    "make_thread_local": True,
    "max_block_dim": 0,
    "mesh_localize_all_attr_mappings": False,
    "mesh_localize_from_end_mapping": False,
    "mesh_localize_to_end_mapping": True,
    "move_loop_invariant_outside_if": False,
    "num_compile_threads": 4,
    "offline_cache_cleaning_factor": 0.25,
    "offline_cache_cleaning_policy": "lru",
    "opt_level": 1,
    "optimize_mesh_reordered_mapping": True,
    "packed": False,
    "print_accessor_ir": False,
    "print_ir_dbg_info": False,
    "print_kernel_amdgcn": False,
    "print_kernel_asm": False,
    "print_kernel_llvm_ir": False,
    "print_kernel_llvm_ir_optimized": False,
    "print_struct_llvm_ir": False,
    "real_matrix_scalarize": True,
    "saturating_grid_dim": 0,
    "simplify_after_lower_access": True,
    "simplify_before_lower_access": True,
    "timeline": False,
    "use_llvm": True,
    "verbose_kernel_launches": False,
    "vk_api_version": "",
    # Taichi's asynchronous engine, up to version 1.0.4.
    "async_opt_passes": 3,
    "async_opt_fusion_max_iter": 0,
    "async_opt_listgen": True,
    "async_opt_activation_demotion": True,
    "async_listgen_fast_filtering": True,
    "async_opt_intermediate_file": "",
    "async_max_fuse_per_task": 1,
}

DEFAULTS = {**_ACTIVE, **_IGNORED}
DEFAULT_TYPES = {"default_fp": "f32", "default_ip": "i32"}
# Options that turn an optimization of the compiler off.
_SWITCHES = {
    "quant_opt_store_fusion": "store_fusion",
    "quant_opt_atomic_demotion": "quantized_ownership",
    "async_opt_fusion": "task_fusion",
    "async_opt_dse": "dead_store_elimination",
}
# Log levels of the core. At the default level, the environment variable WUJI_LOG decides.
_LOGS = {"trace": "trace", "debug": "debug", "warn": "warn", "error": "error", "critical": "error", "off": "off"}
_LEVELS = ("trace", "debug", "info", "warn", "error", "critical", "off")
# Options whose value is one of a few words.
_CHOICES: dict[str, tuple[str, ...]] = {
    "log_level": _LEVELS,
    "offline_cache_cleaning_policy": ("never", "version", "lru", "fifo"),
    "tier": ("", "fast", "best", "both"),
}
# Options whose value may be negative, and those with a small range.
_SIGNED = ("random_seed",)
_LARGEST = {"opt_level": 3}
_MOST = 1 << 63


class Config:
    """Options of a world, as attributes."""

    arch: Arch
    default_fp: dtypes.DataType
    default_ip: dtypes.DataType
    verbose: bool
    log_level: str
    kernel_profiler: bool
    debug: bool

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.default_fp = dtypes.f32
        self.default_ip = dtypes.i32
        self.__dict__.update(DEFAULTS)

    def __call__(self) -> Config:
        """Return the options themselves: `config` of a Taichi program is a function."""
        return self

    @property
    def default_up(self) -> dtypes.DataType:
        return dtypes.u64 if self.default_ip.bits == 64 else dtypes.u32

    def native(self) -> dict[str, Any]:
        """Return the arguments of the native world."""
        values = self.__dict__
        threads = values["cpu_max_num_threads"] or None
        if not values["make_cpu_multithreading_loop"]:
            threads = 1
        cache = None
        if not values["offline_cache"]:
            cache = "off"
        elif values["offline_cache_file_path"]:
            cache = os.path.expanduser(values["offline_cache_file_path"])
        return {
            "interpreter": bool(values["interpreter"]),
            "cuda": 0 if self.arch is archs.cuda and not values["interpreter"] else None,
            "threads": threads,
            "math": "fast" if values["fast_math"] else "strict",
            "seed": int(values["random_seed"]) % (1 << 64),
            "debug": bool(values["debug"]),
            "check_reads": bool(values["debug"] or values["check_out_of_bound"]),
            "check_precision": int(values["check_precision"]) if int(values["check_precision"]) >= 0 else None,
            "deterministic": bool(values["deterministic"]),
            "memory_limit": int(values["memory_limit"]) or None,
            "cache": cache,
            "cache_limit": int(values["offline_cache_max_size_of_files"]) or None,
            "log": _LOGS.get(values["log_level"]),
            "tier": values["tier"] or None,
            "time_limit": float(values["time_limit"]) or None,
            "libdevice": libdevice.find(values["libdevice"]) if self.arch is archs.cuda else None,
            "wait_for_launches": True if values["wait_for_launches"] else None,
            "lazy": bool(values["async_mode"]),
            "window": max(1, int(values["async_flush_every"])),
            "without": [w.strip() for w in values["without"].split(",") if w.strip()] + [switch for option, switch in _SWITCHES.items() if not values[option]],
        }


def is_enabled(level: str, requested: str) -> bool:
    return _LEVELS.index(level) >= _LEVELS.index(requested if requested in _LEVELS else "info")


def _from_text(name: str, text: str, like: Any) -> Any:
    if isinstance(like, bool):
        if text.lower() in ("1", "true", "on", "yes"):
            return True
        if text.lower() in ("0", "false", "off", "no", ""):
            return False
    else:
        try:
            return type(like)(text)
        except ValueError:
            pass
    raise WujiOptionError(f"the environment variable TI_{name.upper()} must be a {type(like).__name__}, not {text!r}", "W0609")


def _checked(name: str, value: Any, like: Any, where: str) -> Any:
    """Return the value of an option, converted to the type of its default; raise if it has another type or is not one of its values."""
    allowed = _CHOICES.get(name)
    if allowed is not None:
        if value not in allowed:
            raise WujiOptionError(f"{where} must be one of {', '.join(repr(a) for a in allowed if a)}, not {value!r}", "W0609")
        return value
    needed = {bool: "True or False", int: "an integer", float: "a number", str: "a string"}[type(like)]
    try:
        if isinstance(like, bool):
            # NumPy's bool, and the integers 0 and 1.
            if isinstance(value, (str, bytes)) or value not in (0, 1):
                raise TypeError
            return bool(value)
        if isinstance(like, int):
            converted: Any = operator.index(value)
        elif isinstance(like, float):
            if isinstance(value, (str, bytes)):
                raise TypeError
            converted = float(value)
        else:
            return os.fspath(value)
    except (TypeError, ValueError):
        raise WujiOptionError(f"{where} must be {needed}, not {value!r}", "W0609") from None
    if converted > _LARGEST.get(name, converted):
        raise WujiOptionError(f"{where} cannot be {value!r}: it must be 0 to {_LARGEST[name]}", "W0609")
    if not (-_MOST if name in _SIGNED else 0) <= converted < _MOST:
        raise WujiOptionError(f"{where} cannot be {value!r}: it must be at least {'-2^63' if name in _SIGNED else '0'} and less than 2^63", "W0609")
    return converted


def read(arch: Any, given: dict[str, Any], fallback: bool = True) -> Config:
    """Combine explicit options, environment variables and defaults."""
    given = dict(given)
    requested = os.environ.get("TI_ARCH")
    if requested:
        if requested not in ("cpu", "gpu") and requested not in archs._ALL:
            raise WujiOptionError(f"the environment variable TI_ARCH must name a backend, not {requested!r}", "W0609")
        arch = archs.gpu if requested == "gpu" else archs.by_name(requested)
    config = Config(_choose(arch, fallback))
    for name in DEFAULT_TYPES:
        if name in given:
            value = given.pop(name)
            if dtypes.scalar_type(value) is None:
                raise WujiOptionError(f"the option `{name}` must be a scalar type such as ti.{DEFAULT_TYPES[name]}, not {value!r}", "W0609")
            value = dtypes.need_scalar(value)
        elif os.environ.get(f"TI_{name.upper()}"):
            text = os.environ[f"TI_{name.upper()}"]
            if text in ("32", "64"):
                text = ("f" if name == "default_fp" else "i") + text  # as Taichi spells it
            if text not in dtypes._BY_NAME:
                raise WujiOptionError(f"the environment variable TI_{name.upper()} must name a scalar type, not {text!r}", "W0609")
            value = dtypes.by_name(text)
        else:
            continue
        allowed = (dtypes.f16, dtypes.f32, dtypes.f64) if name == "default_fp" else (dtypes.i32, dtypes.i64)
        if value not in allowed:
            raise WujiOptionError(f"{name} must be one of {', '.join(map(str, allowed))}, not {value}", "W0609")
        setattr(config, name, value)
    for name, default in DEFAULTS.items():
        setting = os.environ.get(f"TI_{name.upper()}")
        if setting is not None:
            setattr(config, name, _checked(name, _from_text(name, setting, default), default, f"the environment variable TI_{name.upper()}"))
    for name, value in given.items():
        if name not in DEFAULTS:
            raise WujiOptionError(_unknown(name), "W0609")
        setattr(config, name, _checked(name, value, DEFAULTS[name], f"the option `{name}`"))
    return config


def check_passes(native: _native.World, config: Config) -> None:
    """Raise if `without` names a pass that does not exist. The compiler knows their names, so it compiles an empty kernel."""
    without = config.__dict__["without"]
    if not without:
        return
    try:
        _native.Builder("without").finish(native, ())
    except _native.NativeError as e:
        native.close()
        message = e.args[0].removeprefix(f"error[{e.code}]: ")
        raise WujiOptionError(f"the option `without` cannot be {without!r}: {message}", "W0609") from None


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, DEFAULTS, 1)
    return f"Unrecognized keyword argument(s) for ti.init: {name}" + (f"; did you mean `{near[0]}`?" if near else "")


def _choose(arch: Any, fallback: bool) -> Arch:
    if arch is None:
        return archs.cpu
    wanted = list(arch) if isinstance(arch, (list, tuple)) else [arch]
    # Names, as in the environment variable.
    if any(choice == "gpu" for choice in wanted if isinstance(choice, str)):
        wanted = [a for choice in wanted for a in (archs.gpu if choice == "gpu" else [choice])]
    wanted = [archs.by_name(a) if isinstance(a, str) and (a == "cpu" or a in archs._ALL) else a for a in wanted]
    for choice in wanted:
        if not isinstance(choice, Arch):
            raise WujiOptionError(f"`arch` must be one of ti.cpu, ti.gpu, ti.cuda, ..., not {choice!r}", "W0609")
        if archs.is_supported(choice):
            return choice
    names = ", ".join(a.name for a in wanted)
    if not fallback:
        raise NotYet(f"no supported backend among {names}; this machine has {archs.cpu.name}{', cuda' if archs.cuda_devices() else ''}", "W0607")
    # Fallback is allowed, but never silent.
    print(f"[Wuji] warning: no {names} on this machine; falling back to {archs.cpu.name}", file=sys.stderr)
    return archs.cpu


def check_version(wanted: str) -> None:
    have = tuple(int(x) for x in _native.__version__.split(".")[:3])
    try:
        need = tuple(int(x) for x in wanted.lstrip("v").split("."))
    except ValueError:
        raise WujiRuntimeError(f"`require_version` {wanted!r} is not a version number") from None
    # Programs name Taichi versions.
    if need > max(have, (1, 7, 4)):
        raise WujiRuntimeError(f"Taichi version mismatch. Required version >= {wanted}, but Wuji {_native.__version__} implements the language of Taichi 1.7")
