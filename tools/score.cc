// Measures how often samples show what their captions say.
//   bazel run //tools:score -- --untrained
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/progress.h"
#include "data/scenes/scene.h"
#include "gflags/gflags.h"
#include "models/latent/image_sampler.h"
#include "tools/sampling/sampling_devices.h"
#include "tools/sampling/scoring.h"
#include "tools/training/trained_model.h"

DEFINE_string(
    model, "",
    "folder in diffusers layout, or tiny_sd or tiny_flux; empty: out/train if it exists, else "
    "tiny_sd");
DEFINE_int32(count, 64, "number of images with one object, and of images with two");
DEFINE_bool(untrained, false,
            "also score random weights, and real images through the VAE and back");
DEFINE_int32(steps, 30, "denoising steps");
DEFINE_double(guidance, 4, "classifier-free guidance scale; 1: no guidance");
DEFINE_int32(
    image_size, 0,
    "image size in pixels a side, as in training; 0: the size that the model was made for");
DEFINE_uint64(seed, 1, "seed for the initial noise");
DEFINE_uint64(scene_seed, 20000, "seed for the captions; the built-in data set has seed 1");
DEFINE_string(dtype, "fp32", "element type of the computation, fp32 or bf16");
DEFINE_string(backend, "auto", "cpu, cuda, or auto: cuda if there are enough GPUs, else cpu");
DEFINE_int32(devices, 0, "number of devices that share the work; 0: one per core, or every GPU");
DEFINE_string(json, "", "also write the scores to this file");
FLAG_RANGE(count, 1, 100'000);
FLAG_RANGE(steps, 1, 10'000);
FLAG_RANGE(image_size, 0, 4'096);
FLAG_RANGE(guidance, 0, 1'000);
FLAG_RANGE(devices, 0, 1'024);

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Measures how often samples of a model show what their captions say.\n"
    "  bazel run //tools:score -- --untrained\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

absl::Status CheckFlags() {
  DPIPE_RETURN_IF_ERROR(CheckChoice("backend", FLAGS_backend, {"auto", "cpu", "cuda"}));
  return AsCommandLineError(ParseComputeDType(FLAGS_dtype).status());
}

// Scores one model's images, and real ones, on the same captions.
class Scorer {
 public:
  static absl::StatusOr<std::unique_ptr<Scorer>> Create(const models::LatentPipeline* model) {
    auto scorer = std::unique_ptr<Scorer>(new Scorer(model));
    DPIPE_ASSIGN_OR_RETURN(scorer->devices_,
                           SamplingDevices::Start(FLAGS_backend, FLAGS_devices, Say));
    for (int num_objects : {1, 2}) {
      scorer->prompts_.push_back(DrawScorePrompts(FLAGS_scene_seed, num_objects, FLAGS_count));
    }
    return scorer;
  }

  absl::Status ScoreSamples(const std::string& subject, const std::map<std::string, Tensor>& unet) {
    DPIPE_ASSIGN_OR_RETURN(const auto sampler, MakeSampler(unet));
    models::DrawOptions options;
    options.num_steps = FLAGS_steps;
    options.guidance = static_cast<float>(FLAGS_guidance);
    options.seed = FLAGS_seed;
    for (const std::vector<ScorePrompt>& prompts : prompts_) {
      std::vector<std::string> captions;
      for (const ScorePrompt& prompt : prompts) captions.push_back(prompt.caption);
      progress_.Update(
          Phase(absl::StrCat("drawing ", captions.size(), " captions of ",
                             prompts[0].scene.objects.size(), " object(s): ", subject)));
      DPIPE_ASSIGN_OR_RETURN(const std::vector<Image> images,
                             sampler->Draw(captions, options, devices_.workers()));
      DPIPE_RETURN_IF_ERROR(Add(subject, prompts, images));
    }
    return absl::OkStatus();
  }

  absl::Status ScoreReal(const std::map<std::string, Tensor>& unet) {
    DPIPE_ASSIGN_OR_RETURN(const auto sampler, MakeSampler(unet));
    for (const std::vector<ScorePrompt>& prompts : prompts_) {
      std::vector<Image> images;
      for (const ScorePrompt& prompt : prompts) {
        images.push_back(RenderScene(prompt.scene, model_->image_size()));
      }
      DPIPE_ASSIGN_OR_RETURN(images, sampler->Reconstruct(images, devices_.workers()));
      DPIPE_RETURN_IF_ERROR(Add("real images through the VAE", prompts, images));
    }
    return absl::OkStatus();
  }

  const std::vector<Score>& Finish() {
    progress_.Finish();
    return scores_;
  }

 private:
  explicit Scorer(const models::LatentPipeline* model)
      : model_(model), progress_(report::StandardErrorProgress("score")) {}

  absl::StatusOr<std::unique_ptr<models::ImageSampler>> MakeSampler(
      const std::map<std::string, Tensor>& unet) const {
    DPIPE_ASSIGN_OR_RETURN(const DType dtype, ParseComputeDType(FLAGS_dtype));
    return models::ImageSampler::Create(model_, unet, dtype);
  }

  absl::Status Add(const std::string& subject, const std::vector<ScorePrompt>& prompts,
                   const std::vector<Image>& images) {
    DPIPE_ASSIGN_OR_RETURN(scores_.emplace_back(), ScoreImages(subject, prompts, images));
    return absl::OkStatus();
  }

  static report::ProgressState Phase(const std::string& phase) {
    report::ProgressState state;
    state.phase = phase;
    return state;
  }

  const models::LatentPipeline* const model_;
  report::Progress progress_;
  SamplingDevices devices_;
  std::vector<std::vector<ScorePrompt>> prompts_;  // with one object, with two
  std::vector<Score> scores_;
};

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  models::LoadModelOptions loading;
  loading.image_size = FLAGS_image_size;
  DPIPE_ASSIGN_OR_RETURN(const auto trained,
                         LoadTrainedModel(FLAGS_model, OutputPath("out/train"), Say, loading));
  const models::LatentPipeline* model = &trained->pipeline();
  const std::string note = model->objective().SamplerNote(models::DrawOptions());
  if (!note.empty()) Say(absl::StrCat("Note:     ", note));
  DPIPE_ASSIGN_OR_RETURN(const auto unet, model->LoadDenoiser());
  DPIPE_ASSIGN_OR_RETURN(const auto scorer, Scorer::Create(model));
  DPIPE_RETURN_IF_ERROR(scorer->ScoreSamples("the model", unet));
  if (FLAGS_untrained) {
    const auto random = model->RandomDenoiser(FLAGS_seed);
    DPIPE_RETURN_IF_ERROR(scorer->ScoreSamples("random weights", random));
    DPIPE_RETURN_IF_ERROR(scorer->ScoreReal(random));
  }
  const std::vector<Score>& scores = scorer->Finish();
  std::printf("Model:    %s\n\n%s\n", model->folder().c_str(), ScoreTable(scores).ToText().c_str());
  std::printf(
      "Share of images in which every object's colour, shape, or both match the caption; "
      "then of those\nwhose relation also matches; then of those whose sizes and background "
      "match, if the caption has them.\n");
  if (FLAGS_json.empty()) return absl::OkStatus();
  const std::string path = UserPath(FLAGS_json);
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, ScoresJson(model->folder(), scores)));
  std::printf("Scores:   %s\n", path.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  return dpipe::RunCommand(
      argc, argv,
      {"score",
       dpipe::tools::kUsage,
       {{"What is scored", {"model", "untrained", "count", "scene_seed"}},
        {"How", {"steps", "guidance", "image_size", "seed", "dtype", "backend", "devices"}},
        {"Results", {"json"}}}},
      dpipe::tools::Main);
}
