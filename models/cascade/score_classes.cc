// Draws every class of a cascade trained on the built-in scenes, and scores the pictures with the
// scene recognizer.
//   bazel run //models/cascade:score_classes -- --model=FOLDER --grid=samples.png
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "data/images/image_encode.h"
#include "data/images/image_grid.h"
#include "data/images/image_resize.h"
#include "data/scenes/scene_recognizer.h"
#include "gflags/gflags.h"
#include "models/cascade/cascade.h"

DEFINE_string(model, "", "folder of the cascade in diffusers layout");
DEFINE_bool(random, false, "use random weights instead of the folder's, for comparison");
DEFINE_int32(per_class, 2, "number of images of each class");
DEFINE_int32(steps, 30, "denoising steps of each of the two models");
DEFINE_double(guidance, 3, "classifier-free guidance scale; 1: no guidance");
DEFINE_uint64(seed, 1, "seed for the initial noise");
DEFINE_string(grid, "", "PNG file to write with one image of each class; empty: none");
FLAG_RANGE(per_class, 1, 1'000);
FLAG_RANGE(steps, 1, 10'000);
FLAG_RANGE(guidance, 0, 1'000);

namespace dpipe::models {
namespace {

struct Score {
  int pictures = 0, colors = 0, shapes = 0, both = 0;
};

// Pictures are resized to 64 pixels, for which the recognizer's accuracy was measured.
absl::StatusOr<Score> ScoreOf(const std::vector<Image>& images,
                              const std::vector<std::string>& prompts) {
  Score score;
  for (size_t i = 0; i < images.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(const SceneMatch match,
                           MatchCaption(ResizeImage(images[i], 64, 64), prompts[i]));
    ++score.pictures;
    score.colors += match.num_colors_right;
    score.shapes += match.num_shapes_right;
    score.both += match.num_objects_right;
  }
  return score;
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("model", FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(const auto model, Cascade::Load(UserPath(FLAGS_model), {}));
  const ClassLabels* labels = static_cast<const Cascade&>(*model).labels();
  if (labels == nullptr) return absl::InvalidArgumentError("the cascade has no classes");
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors parameters,
                         model->InitialParameters(FLAGS_random ? TrainableModel::Start::kRandom
                                                               : TrainableModel::Start::kFolder,
                                                  FLAGS_seed));
  DrawRequest request;
  for (int i = 0; i < FLAGS_per_class; ++i) {
    for (const std::string& name : labels->names()) {
      request.prompts.push_back(absl::StrCat("a ", name));
    }
  }
  request.options.num_steps = FLAGS_steps;
  request.options.guidance = static_cast<float>(FLAGS_guidance);
  request.options.seed = FLAGS_seed;
  const auto workers = StartWorkers({Device::Cpu(), Device::Cpu()});
  DPIPE_ASSIGN_OR_RETURN(
      std::vector<Image> images,
      model->Draw(parameters, request, {workers[0].get(), workers[1].get()}, nullptr));
  DPIPE_ASSIGN_OR_RETURN(const Score score, ScoreOf(images, request.prompts));
  std::printf("%d pictures: colour right in %.0f %%, shape in %.0f %%, both in %.0f %%\n",
              score.pictures, 100.0 * score.colors / score.pictures,
              100.0 * score.shapes / score.pictures, 100.0 * score.both / score.pictures);
  if (FLAGS_grid.empty()) return absl::OkStatus();
  images.resize(labels->names().size());
  DPIPE_ASSIGN_OR_RETURN(const std::string png,
                         EncodePng(MakeGrid(images, {/*columns=*/10, /*margin=*/2, /*zoom=*/2})));
  return WriteFileAtomically(UserPath(FLAGS_grid), png);
}

}  // namespace
}  // namespace dpipe::models

int main(int argc, char** argv) {
  const dpipe::Command command = {"score_classes",
                                  "Draws every class of a cascade and scores the images.\n"
                                  "  bazel run //models/cascade:score_classes -- --model=FOLDER\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::models::Main);
}
