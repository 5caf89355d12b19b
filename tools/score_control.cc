// Measures how well pictures drawn with a ControlNet follow their outlines, and shows some.
//   bazel run //tools:score_control -- --model=FOLDER
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/progress.h"
#include "data/images/image_encode.h"
#include "data/images/image_grid.h"
#include "data/scenes/scene.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/load.h"
#include "nlohmann/json.hpp"
#include "tools/sampling/condition_adherence.h"
#include "tools/sampling/sampling_devices.h"
#include "tools/sampling/scoring.h"

DEFINE_string(model, "", "folder in diffusers layout that has a controlnet/");
DEFINE_int32(count, 64, "number of images, of one object each");
DEFINE_int32(shown, 8, "number of images shown in the picture");
DEFINE_int32(steps, 30, "denoising steps");
DEFINE_double(guidance, 4, "classifier-free guidance scale; 1: no guidance");
DEFINE_uint64(seed, 1, "seed for the initial noise");
DEFINE_uint64(scene_seed, 20000, "seed for the scenes; the built-in data set has seed 1");
DEFINE_string(backend, "auto", "cpu, cuda, or auto: cuda if there are enough GPUs, else cpu");
DEFINE_int32(devices, 0, "number of devices that share the work; 0: one per core, or every GPU");
DEFINE_string(picture, "", "PNG file for the picture; empty: out/score_control.png");
DEFINE_string(json, "", "also write the scores to this file");
FLAG_RANGE(count, 1, 100'000);
FLAG_RANGE(shown, 1, 1'000);
FLAG_RANGE(steps, 1, 10'000);
FLAG_RANGE(guidance, 0, 1'000);
FLAG_RANGE(devices, 0, 1'024);
DEFINE_string(images, "",
              "folder for the shown images that were drawn from an outline and a caption, with "
              "their outlines and captions, for models/controlnet/testdata/check_pictures.py");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Measures whether pictures drawn with a ControlNet follow their outlines.\n"
    "  bazel run //tools:score_control -- --model=FOLDER\n";

absl::Status CheckFlags() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("model", FLAGS_model));
  DPIPE_RETURN_IF_ERROR(CheckChoice("backend", FLAGS_backend, {"auto", "cpu", "cuda"}));
  if (FLAGS_count >= FLAGS_shown) return absl::OkStatus();
  return CommandLineError(
      absl::StrCat("--shown=", FLAGS_shown, " must be at most --count=", FLAGS_count));
}

// Draws the same scenes with several models and scores them.
class Judge {
 public:
  static absl::StatusOr<std::unique_ptr<Judge>> Create() {
    auto judge = std::unique_ptr<Judge>(new Judge());
    const auto say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    DPIPE_ASSIGN_OR_RETURN(judge->devices_,
                           SamplingDevices::Start(FLAGS_backend, FLAGS_devices, say));
    DPIPE_ASSIGN_OR_RETURN(judge->folder_, models::FindModelFolder(FLAGS_model));
    for (const ScorePrompt& prompt : DrawScorePrompts(FLAGS_scene_seed, 1, FLAGS_count)) {
      judge->scenes_.push_back(prompt.scene);
      judge->captions_.push_back(prompt.caption);
    }
    return judge;
  }

  // Scores the folder's model of this kind.
  absl::Status Add(const std::string& subject, const std::string& kind, bool with_captions) {
    models::LoadModelOptions loading;
    loading.kind = kind;
    DPIPE_ASSIGN_OR_RETURN(const auto model, models::LoadTrainableModel(folder_, loading));
    DPIPE_ASSIGN_OR_RETURN(
        const auto parameters,
        model->InitialParameters(models::TrainableModel::Start::kFolder, /*seed=*/0));
    models::DrawRequest request;
    request.prompts = with_captions ? captions_ : std::vector<std::string>(captions_.size());
    request.options.num_steps = FLAGS_steps;
    request.options.guidance = static_cast<float>(FLAGS_guidance);
    request.options.seed = FLAGS_seed;
    if (model->wants_conditions()) {
      for (const Scene& scene : scenes_) {
        request.conditions.push_back(RenderSceneEdges(scene, model->image_size()));
      }
      if (shown_.empty()) Show(request.conditions);
    }
    report::ProgressState state;
    state.phase = absl::StrCat("drawing ", captions_.size(), " pictures: ", subject);
    progress_.Update(state);
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Image> images,
                           model->Draw(parameters, request, devices_.workers(), nullptr));
    scores_.push_back(ScoreAdherence(subject, images, scenes_));
    Show(images);
    if (FLAGS_images.empty() || !with_captions || !model->wants_conditions()) {
      return absl::OkStatus();
    }
    return WriteImages(request, images);
  }

  void AddReal() {
    std::vector<Image> images;
    for (const Scene& scene : scenes_) images.push_back(RenderScene(scene, shown_[0].width));
    scores_.push_back(ScoreAdherence("the scenes themselves", images, scenes_));
  }

  absl::Status Finish() {
    progress_.Finish();
    std::printf("%s\n", AdherenceTable(scores_).ToText().c_str());
    const std::string path =
        FLAGS_picture.empty() ? OutputPath("out/score_control.png") : UserPath(FLAGS_picture);
    DPIPE_ASSIGN_OR_RETURN(const std::string png,
                           EncodePng(MakeGrid(shown_, {FLAGS_shown, /*margin=*/3, /*zoom=*/2})));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, png));
    std::printf("\nPicture:  %s\n", path.c_str());
    if (FLAGS_json.empty()) return absl::OkStatus();
    return WriteFileAtomically(UserPath(FLAGS_json), AdherenceJson(FLAGS_model, scores_));
  }

 private:
  static absl::Status WriteImages(const models::DrawRequest& request,
                                  const std::vector<Image>& images) {
    const std::string folder = UserPath(FLAGS_images);
    DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
    nlohmann::ordered_json drawn = {{"seed", request.options.seed},
                                    {"steps", request.options.num_steps},
                                    {"guidance", request.options.guidance},
                                    {"captions", nlohmann::ordered_json::array()}};
    for (int i = 0; i < FLAGS_shown; ++i) {
      drawn["captions"].push_back(request.prompts[i]);
      for (const auto& [name, image] :
           {std::pair("outline", &request.conditions[i]), std::pair("drawn", &images[i])}) {
        DPIPE_ASSIGN_OR_RETURN(const std::string png, EncodePng(*image));
        DPIPE_RETURN_IF_ERROR(
            WriteFileAtomically(absl::StrCat(folder, "/", name, "_", i, ".png"), png));
      }
    }
    return WriteFileAtomically(folder + "/drawn.json", drawn.dump(2) + "\n");
  }

  Judge() : progress_(report::StandardErrorProgress("score_control")) {}
  // Adds a row to the picture.
  void Show(const std::vector<Image>& images) {
    shown_.insert(shown_.end(), images.begin(), images.begin() + FLAGS_shown);
  }

  report::Progress progress_;
  std::string folder_;
  SamplingDevices devices_;
  std::vector<Scene> scenes_;
  std::vector<std::string> captions_;
  std::vector<AdherenceScore> scores_;
  std::vector<Image> shown_;
};

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  DPIPE_ASSIGN_OR_RETURN(const auto judge, Judge::Create());
  DPIPE_RETURN_IF_ERROR(judge->Add("outlines and captions", "controlnet", true));
  DPIPE_RETURN_IF_ERROR(judge->Add("outlines alone", "controlnet", false));
  DPIPE_RETURN_IF_ERROR(judge->Add("captions alone, without ControlNet", "stable_diffusion", true));
  judge->AddReal();
  return judge->Finish();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  return dpipe::RunCommand(argc, argv, {"score_control", dpipe::tools::kUsage}, dpipe::tools::Main);
}
