"""File formats (images, videos, meshes, volumes) and diagnostics."""

from .diagnose import diagnose
from .image import imread, imresize, imshow, imwrite
from .ply import PLYWriter
from .video import VideoManager
from .vtk import write_vtk

__all__ = ["PLYWriter", "VideoManager", "diagnose", "imread", "imresize", "imshow", "imwrite", "write_vtk"]
