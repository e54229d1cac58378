"""Windows, files, the profiler, the command line, options, errors."""

from . import Section

GUI = "gui = ti.GUI('x', res=(32, 32), show_gui=False)\n"
s = Section("Windows")
s.works("ti.GUI", GUI + "gui.show()\nassert gui.running and gui.frame == 1")
s.works(".set_image", GUI + "gui.set_image(np.zeros((32, 32, 3)))")
s.works(".contour", GUI + "gui.contour(np.zeros((32, 32)))", "does not need Matplotlib")
s.works(".vector_field", GUI + "gui.vector_field(np.ones((32, 32, 2)))")
s.works(".circle", GUI + "gui.circle((0.5, 0.5), radius=3)\nassert gui.get_image()[16, 16, 0] == 1")
s.works(".circles", GUI + "gui.circles(np.random.rand(9, 2), radius=3, palette=[1, 2], palette_indices=[0, 1, 0] * 3)")
s.works(".triangle .triangles .line .lines .arrow .arrows .rect", GUI + "p = np.random.rand(4, 2)\none = {'triangle': 3}.get('{.}', 2)\nmany = {'triangles': 3}.get('{.}', 2)\ngui.{.}(*([p] * many if '{.}'.endswith('s') else p[:one]))")
s.works(".text", GUI + "gui.text('hello', (0, 1), font_size=20)")
s.works(".arrow_field .point_field", GUI + "gui.{.}(np.ones((4, 4, 2)) * 0.1 if '{.}'[0] == 'a' else np.ones((4, 4)))")
s.works(".slider .button .label", GUI + "assert gui.slider('a', 0, 1, step=0.1).value == 0 and gui.button('b') and gui.label('c')")
s.works(".clear .show .close .get_image .get_cursor_pos .get_event .get_events", GUI + "gui.{.}()")
s.works(".is_pressed", GUI + "assert not gui.is_pressed('a', ti.GUI.LMB)")
s.works(".running .fps_limit", GUI + "assert gui.{.}")
s.works(".get_key_event", GUI + "gui._handle('key', 'a', True, 0, 0)\nassert gui.get_key_event().key == 'a'")
s.works("ti.rgb_to_hex ti.hex_to_rgb", "assert ti.rgb_to_hex(ti.hex_to_rgb(0x336699)) == 0x336699")
s.refused("ti.ui.Window ti.ui.Canvas ti.ui.Scene ti.ui.Camera ti.ui.Gui ti.ui.make_camera", "{}()", "GPU-rendered windows")
s.works("ti.ui.ProjectionMode", "ti.ui.ProjectionMode.Perspective")

s = Section("Files")
s.works("ti.tools.imread ti.tools.imwrite", "file = str(folder / 'x.png')\nti.tools.imwrite(np.ones((4, 4, 3)), file)\nassert ti.tools.imread(file).shape == (4, 4, 3)", "PNG; other formats require Pillow")
s.works("ti.tools.imresize", "assert ti.tools.imresize(np.zeros((4, 4)), 8).shape == (8, 8)")
s.works("ti.tools.imshow", "assert callable(ti.tools.imshow)", "needs a display")
s.works("ti.tools.VideoManager", "v = ti.tools.VideoManager(str(folder), automatic_build=False)\nv.write_frame(np.zeros((8, 8)))\nv.make_video(gif=True, mp4=False)", "GIF; MP4 requires ffmpeg")
s.works("ti.tools.PLYWriter", "w = ti.tools.PLYWriter(1)\nw.add_vertex_pos([0], [0], [0])\nw.export(str(folder / 'x.ply'))")
s.works("ti.tools.write_vtk", "ti.tools.write_vtk(np.zeros((2, 2)), str(folder / 'x'))", "does not need pyevtk")
s.works("ti.tools.diagnose", "ti.tools.diagnose()")

PROFILER = "ti.init(kernel_profiler=True, verbose=False, offline_cache=False)\n> pass\n"
s = Section("Profiler and log")
s.works("ti.profiler.print_kernel_profiler_info ti.profiler.clear_kernel_profiler_info ti.profiler.get_kernel_profiler_total_time ti.profiler.print_scoped_profiler_info ti.profiler.clear_scoped_profiler_info ti.profiler.print_memory_profiler_info", PROFILER + "{}()")
s.works("ti.profiler.query_kernel_profiler_info", PROFILER + "assert ti.profiler.query_kernel_profiler_info('run').counter >= 0")
s.works("ti.profiler.set_kernel_profiler_toolkit", PROFILER + "assert {}('default') and not {}('cupti')", "the only toolkit is 'default'")
s.refused("ti.profiler.CuptiMetric ti.profiler.get_predefined_cupti_metrics ti.profiler.set_kernel_profiler_metrics ti.profiler.collect_kernel_profiler_metrics", "{}()", "GPU hardware counters; times are measured with CUDA events")
s.works("ti.set_logging_level ti.is_logging_effective", "ti.set_logging_level(ti.ERROR)\nassert ti.is_logging_effective(ti.ERROR) and not ti.is_logging_effective(ti.WARN)")
s.works("ti.TRACE ti.DEBUG ti.INFO ti.WARN ti.ERROR ti.CRITICAL", "assert isinstance({}, str)")
s.works("ti.sync ti.reset", "{}()")
s.works("ti.cfg", "assert ti.cfg.arch is ti.cpu and ti.cfg.debug in (False, True)")
s.works("ti.__version__", "assert isinstance(ti.__version__, str)", "a string: Wuji's version; with wuji.compat.taichi it is (1, 7, 4)", partly=True)

s = Section("Debugging")
s.one("print in kernels", "> print('x', 1, 2.5, ti.Vector([1, 2]))")
s.refused("assert in kernels", "ti.init(debug=True, verbose=False, offline_cache=False)\n> assert 1 > 2, 'no'", "with debug, as in Taichi: TaichiAssertionError", code="W0403", sep="\0")
s.refused("indices out of range", "ti.init(debug=True, verbose=False, offline_cache=False)\nf = ti.field(ti.f32, 4)\n> for i in range(9):\n>     f[i] = 1", "with debug an error; otherwise reads return zero, writes are dropped, and a RuntimeWarning is emitted", code="W0401", sep="\0")

s = Section("Devices")
s.works("ti.cpu ti.x64", "{}\nti.init(arch=ti.cpu, verbose=False)")
s.partly("ti.arm64", "{}\nassert ti.cpu in (ti.x64, ti.arm64)", "the name exists; machine code is generated for x86-64 only")
s.works("ti.cuda ti.gpu", "ti.init(arch={}, verbose=False)\nassert ti.cfg.arch is (ti.cuda if ti.lang.misc.is_arch_supported(ti.cuda) else ti.cpu)", "NVIDIA GPUs; without one, init warns and uses the CPU, unless enable_fallback=False")
s.works("ti.vulkan ti.metal ti.opengl ti.gles ti.dx11 ti.dx12 ti.amdgpu", "ti.init(arch={}, verbose=False)\nassert ti.cfg.arch is ti.cpu", "not supported yet: init warns and uses the CPU, unless enable_fallback=False", partly=True)
s.works("ti.extension", "assert ti.lang.misc.is_extension_supported(ti.cpu, ti.extension.sparse)")
s.works("ti.init", "ti.init(arch=ti.cpu, default_fp=ti.f64, default_ip=ti.i64, random_seed=3, verbose=False)\nassert ti.cfg.default_fp is ti.f64", "see the page on options")

s.one("environment: TI_DEBUG and so on", "import os\nos.environ['TI_UNROLLING_LIMIT'] = '7'\ntry:\n    ti.init(arch=ti.cpu, verbose=False)\n    assert ti.cfg.unrolling_limit == 7\nfinally:\n    del os.environ['TI_UNROLLING_LIMIT']")
s.one("offline_cache, offline_cache_file_path, offline_cache_max_size_of_files", "ti.init(arch=ti.cpu, verbose=False, offline_cache_file_path=str(folder / 'kernels'))\n@ti.kernel\ndef k() -> ti.i32:\n    return 7\nassert k() == 7", "on by default")
s.one("unknown options: KeyError", "try:\n    ti.init(arch=ti.cpu, debugg=True)\nexcept KeyError as e:\n    assert 'debug' in str(e)\nelse:\n    raise AssertionError")
s.one("ti.World", "with ti.World(verbose=False):\n    f = ti.field(ti.i32, 4)\n    f[1] = 2", "not in Taichi: several worlds in one process")

s = Section("Errors")
s.works("ti.TaichiCompilationError ti.TaichiSyntaxError ti.TaichiNameError ti.TaichiTypeError ti.TaichiIndexError ti.TaichiRuntimeError ti.TaichiRuntimeTypeError ti.TaichiAssertionError", "assert issubclass({}, Exception)")

s = Section("Internals that programs use")
s.works("ti.lang.impl.current_cfg", "assert ti.lang.impl.current_cfg().arch is ti.cpu")
s.works("ti.lang.impl.get_runtime", "assert ti.lang.impl.get_runtime().prog")
s.works("ti.lang.misc.is_arch_supported", "assert ti.lang.misc.is_arch_supported(ti.cpu)")
s.works("ti._lib.core", "assert ti._lib.core.with_cuda() is ti.lang.misc.is_arch_supported(ti.cuda)")
s.works("ti.lang.util.to_numpy_type ti.lang.util.to_taichi_type ti.lang.util.has_pytorch", "{}(ti.f32) if 'to_' in '{}' else {}()")
s.works("ti.lang.matrix.Matrix ti.lang.snode.SNode ti.lang.exception.TaichiCompilationError ti.lang.kernel_impl.Kernel ti.lang.simt.block", "{}")

CLI = "from wuji.__main__ import main\n"
s = Section("Command-line tool")
s.works("wuji run, wuji debug, wuji repl, wuji example, wuji gallery, wuji diagnose, wuji cache, wuji doc, wuji gif, wuji video, wuji video_speed, wuji video_crop, wuji video_scale", CLI + "assert main(['{}'.split()[1], '--help']) == 0", sep=",")
for name in "changelog release format format_all regression baseline test lint module".split():
    s.works(f"wuji {name}", CLI + f"assert main(['{name}']) == 2", "for Taichi's own developers, or for unsupported features: prints a message", sep="\0", partly=True)
