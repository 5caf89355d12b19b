"""Checks our event files against TensorBoard's own code.

  python make_event_golden.py crc TEXT...    masked checksums, as in event_writer_test.cc
  python make_event_golden.py read FOLDER    what TensorBoard finds in a folder of event files

Needs the package tensorboard (2.x).
"""

import sys


def crc(texts):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    for text in texts:
        print(f"{text!r}: 0x{masked_crc32c(text.encode()):08x}")


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder, size_guidance={"images": 0, "scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    for tag in tags["scalars"]:
        values = [(e.step, round(e.value, 6)) for e in events.Scalars(tag)]
        print(f"scalar {tag}: {len(values)} values, {values[:3]} ... {values[-1]}")
    for tag in tags["images"]:
        images = [(e.step, e.width, e.height, e.encoded_image_string[:4]) for e in events.Images(tag)]
        print(f"image {tag}: {images}")
    for tag in tags["tensors"]:
        for e in events.Tensors(tag):
            print(f"text {tag}: step {e.step}, {e.tensor_proto.string_val[0][:60]}")


if __name__ == "__main__":
    {"crc": crc, "read": lambda a: read(a[0])}[sys.argv[1]](sys.argv[2:])
