// Writes the built-in image-caption data set into a folder.
//   bazel run //data:make_dataset -- --out=/tmp/scenes --count=4096
#include <gflags/gflags.h>

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "data/generator.h"

DEFINE_string(out, "", "folder to write; made if it does not exist");
DEFINE_int32(count, 4096, "number of images");
DEFINE_uint64(seed, 1, "which endless sequence of scenes to take the first --count of");
DEFINE_int32(size, 64, "pixels a side, of the shorter one");
DEFINE_double(max_aspect, 1, "of the longer side to the shorter, at most; 1: square images");
DEFINE_bool(conditions, false, "write the outlines of each image too, as condition pictures");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("Writes the built-in image-caption data set into a folder.");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (FLAGS_out.empty()) {
    std::fprintf(stderr, "make_dataset: --out=FOLDER is missing\n");
    return 2;
  }
  dpipe::BuiltInDatasetOptions options;
  options.count = FLAGS_count;
  options.seed = FLAGS_seed;
  options.image_size = FLAGS_size;
  options.max_aspect = FLAGS_max_aspect;
  options.with_conditions = FLAGS_conditions;
  options.progress = [](int done, int count) {
    std::fprintf(stderr, "\rscenes: %d of %d%s", done, count, done == count ? "\n" : "");
  };
  const absl::Status status = dpipe::EnsureBuiltInDataset(FLAGS_out, options);
  if (!status.ok()) {
    std::fprintf(stderr, "make_dataset: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf("%s\n", FLAGS_out.c_str());
  return 0;
}
