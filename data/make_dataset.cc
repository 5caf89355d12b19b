// Writes the built-in image-caption data set into a folder.
//   bazel run //data:make_dataset -- --out=/tmp/scenes --count=4096
#include <gflags/gflags.h>

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "data/scenes/generator.h"

DEFINE_string(out, "", "folder to write; created if it does not exist");
DEFINE_int32(count, 4096, "number of images");
DEFINE_uint64(seed, 1, "seed for the scenes");
DEFINE_int32(size, 64, "length of the shorter side in pixels");
DEFINE_double(max_aspect, 1,
              "maximum ratio of the longer side to the shorter one; 1: square images");
DEFINE_bool(conditions, false, "also write the outlines of each image, as condition images");
FLAG_RANGE(count, 1, 100'000);
FLAG_RANGE(size, 16, 4'096);
FLAG_RANGE(max_aspect, 1, 4);

namespace {

absl::Status Run() {
  DPIPE_RETURN_IF_ERROR(dpipe::RequireFlag("out", FLAGS_out));
  dpipe::BuiltInDatasetOptions options;
  options.count = FLAGS_count;
  options.seed = FLAGS_seed;
  options.image_size = FLAGS_size;
  options.max_aspect = FLAGS_max_aspect;
  options.with_conditions = FLAGS_conditions;
  options.progress = [](int done, int count) {
    std::fprintf(stderr, "\rscenes: %d of %d%s", done, count, done == count ? "\n" : "");
  };
  const std::string folder = dpipe::UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(dpipe::EnsureBuiltInDataset(folder, options));
  std::printf("%s\n", folder.c_str());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const dpipe::Command command = {"make_dataset",
                                  "Writes the built-in image-caption data set into a folder.\n"
                                  "  bazel run //data:make_dataset -- --out=FOLDER\n"};
  return dpipe::RunCommand(argc, argv, command, Run);
}
