"""Where the public samples lie: they are not part of the project.

HM_SAMPLE_DATA (or HM_SHARED_DATA) names their folder; else ../shared/data beside the source tree.
"""
import glob
import os


def find(source, pattern):
    for folder in (os.environ.get("HM_SAMPLE_DATA"), os.environ.get("HM_SHARED_DATA"),
                   os.path.join(source, "../shared/data")):
        for path in sorted(glob.glob(os.path.join(folder, pattern))) if folder else []:
            return path
    return None
