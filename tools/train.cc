// Trains Stable Diffusion by a pipeline strategy and leaves a model in diffusers layout.
//   bazel run //tools:train -- --minutes=10
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "core/base/run_paths.h"
#include "gflags/gflags.h"
#include "models/stable_diffusion/folders.h"
#include "tools/command_line.h"
#include "tools/prompts.h"
#include "tools/trainer.h"

DEFINE_string(model, "tiny_sd", "tiny_sd, or a folder in diffusers layout");
DEFINE_string(init, "random", "the U-Net to begin with: random, or checkpoint (the model's)");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(strategy, "diffusionpipe", "data_parallel, gpipe, 1f1b, ..., or a composition");
DEFINE_int32(devices, 0, "devices to train on; 0: one for each core");
DEFINE_int32(global_batch, 8, "images of a training step, over all devices");
DEFINE_int32(micro_batches, 0, "micro-batches of a pipeline; 0: the best");
DEFINE_int32(frozen_quantum, 4, "frozen components run on this many samples at a time");
DEFINE_string(dtype, "fp32", "fp32 or bf16: what is computed in; weights are fp32");
DEFINE_int64(steps, 0, "steps to train; 0: as many as surely fit in --minutes");
DEFINE_double(minutes, 10, "time limit of training; 0: none");
DEFINE_double(lr, 1.5e-3, "peak learning rate of AdamW");
DEFINE_int64(warmup, 100, "steps until the learning rate is at its peak");
DEFINE_string(lr_schedule, "cosine", "constant, linear or cosine: from the peak to 0");
DEFINE_double(weight_decay, 0.01, "AdamW's, decoupled");
DEFINE_double(beta2, 0.99, "AdamW's memory of squared gradients");
DEFINE_double(max_grad_norm, 1, "gradients are clipped to this global norm; 0: not");
DEFINE_double(ema, 0.998, "moving average of the weights, which is what is saved; 0: none");
DEFINE_double(caption_drop, 0.1, "share of captions left out, for classifier-free guidance");
DEFINE_bool(mean_latents, true, "train on the mean of the VAE's latents, not on samples of them");
DEFINE_double(min_snr_gamma, 0, "weighs losses by min(snr, gamma); 0: all alike");
DEFINE_string(prediction_type, "", "epsilon, v_prediction or sample; empty: the model's");
DEFINE_bool(flip, false, "mirror images at random");
DEFINE_bool(crop, false, "crop images at random, else at the centre");
DEFINE_uint64(seed, 1, "of initial weights, order of the data, noise and timesteps");
DEFINE_string(out, "", "folder for the model; empty: out/train");
DEFINE_string(store, "fp32", "fp32, fp16 or bf16: how the saved weights are stored");
DEFINE_int64(save_every, 500, "steps from one saved model to the next; 0: at the end only");
DEFINE_int64(sample_every, 0, "steps from one grid of samples to the next; 0: at the end only");
DEFINE_bool(samples, true, "draw a grid of samples at the end");
DEFINE_int32(sample_steps, 30, "denoising steps of a sample");
DEFINE_double(guidance, 4, "classifier-free guidance of samples");
DEFINE_string(log, "", "file for one JSON line a step; empty: beside the model");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Trains Stable Diffusion and writes a model in diffusers layout.\n"
    "  bazel run //tools:train -- --minutes=10 --strategy=diffusionpipe\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

absl::Status CheckNumbers() {
  const std::vector<std::pair<const char*, double>> positive = {
      {"global_batch", FLAGS_global_batch},
      {"frozen_quantum", FLAGS_frozen_quantum},
      {"lr", FLAGS_lr},
      {"sample_steps", FLAGS_sample_steps}};
  for (const auto& [name, value] : positive) {
    if (value > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", name, "=", value, " must be positive"));
  }
  const std::vector<std::pair<const char*, double>> not_negative = {
      {"devices", FLAGS_devices},
      {"micro_batches", FLAGS_micro_batches},
      {"steps", FLAGS_steps},
      {"minutes", FLAGS_minutes},
      {"warmup", FLAGS_warmup},
      {"weight_decay", FLAGS_weight_decay},
      {"max_grad_norm", FLAGS_max_grad_norm},
      {"min_snr_gamma", FLAGS_min_snr_gamma},
      {"save_every", FLAGS_save_every},
      {"sample_every", FLAGS_sample_every}};
  for (const auto& [name, value] : not_negative) {
    if (value >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", value, " must not be negative"));
  }
  const std::vector<std::pair<const char*, double>> shares = {
      {"ema", FLAGS_ema}, {"beta2", FLAGS_beta2}, {"caption_drop", FLAGS_caption_drop}};
  for (const auto& [name, value] : shares) {
    if (value >= 0 && value < 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", name, "=", value, " is not in [0, 1)"));
  }
  if (FLAGS_steps == 0 && FLAGS_minutes == 0) {
    return absl::InvalidArgumentError("--steps=0 and --minutes=0: one of them must end training");
  }
  return absl::OkStatus();
}

absl::Status SetOptimizer(AdamWOptions* optimizer) {
  optimizer->adamw.weight_decay = static_cast<float>(FLAGS_weight_decay);
  optimizer->adamw.beta2 = static_cast<float>(FLAGS_beta2);
  optimizer->learning_rate.peak = static_cast<float>(FLAGS_lr);
  optimizer->learning_rate.warmup_steps = FLAGS_warmup;
  DPIPE_ASSIGN_OR_RETURN(optimizer->learning_rate.shape, ParseLrShape(FLAGS_lr_schedule));
  optimizer->max_grad_norm = FLAGS_max_grad_norm;
  optimizer->ema_decay = FLAGS_ema;
  return absl::OkStatus();
}

absl::StatusOr<models::TrainingSetupOptions> SetupOptions() {
  models::TrainingSetupOptions options;
  DPIPE_RETURN_IF_ERROR(CheckChoice("dtype", FLAGS_dtype, {"fp32", "bf16"}));
  DPIPE_RETURN_IF_ERROR(CheckChoice("init", FLAGS_init, {"random", "checkpoint"}));
  if (!FLAGS_prediction_type.empty()) {
    DPIPE_ASSIGN_OR_RETURN(options.model.prediction_type,
                           diffusion::ParsePredictionType(FLAGS_prediction_type));
  }
  options.model.min_snr_gamma = FLAGS_min_snr_gamma;
  options.num_devices = FLAGS_devices;
  options.global_batch = FLAGS_global_batch;
  options.compute_dtype = FLAGS_dtype == "bf16" ? DType::kBf16 : DType::kF32;
  options.frozen_quantum = FLAGS_frozen_quantum;
  options.seed = FLAGS_seed;
  options.caption_drop = FLAGS_caption_drop;
  options.mean_latents = FLAGS_mean_latents;
  options.data.random_flip = FLAGS_flip;
  options.data.random_crop = FLAGS_crop;
  options.init_random = FLAGS_init == "random";
  DPIPE_RETURN_IF_ERROR(SetOptimizer(&options.optimizer));
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(options.data.folder, models::FindDataFolder(FLAGS_data, Say));
  return options;
}

absl::StatusOr<TrainerOptions> Options(const std::string& command_line) {
  TrainerOptions options;
  DPIPE_RETURN_IF_ERROR(CheckNumbers());
  DPIPE_ASSIGN_OR_RETURN(options.strategy, FindStrategy(FLAGS_strategy));
  DPIPE_RETURN_IF_ERROR(CheckChoice("store", FLAGS_store, {"fp32", "fp16", "bf16"}));
  DPIPE_ASSIGN_OR_RETURN(options.setup, SetupOptions());
  options.num_micro_batches = FLAGS_micro_batches;
  options.num_steps = FLAGS_steps;
  options.time_limit_ns = static_cast<Nanos>(FLAGS_minutes * 60 * kNanosPerSecond);
  options.out = FLAGS_out.empty() ? OutputPath("out/train") : UserPath(FLAGS_out);
  while (options.out.size() > 1 && options.out.back() == '/') options.out.pop_back();
  options.save_every = FLAGS_save_every;
  DPIPE_ASSIGN_OR_RETURN(options.format, models::ParseStoredFormat(FLAGS_store));
  options.sample_every = FLAGS_sample_every;
  if (FLAGS_samples) options.sample_prompts = ExamplePrompts();
  options.draw.num_steps = FLAGS_sample_steps;
  options.draw.guidance = static_cast<float>(FLAGS_guidance);
  options.draw.seed = FLAGS_seed;
  // Beside the model's folder, which is replaced as a whole each time it is saved.
  options.sample_folder = options.out + ".samples";
  options.log_path = FLAGS_log.empty() ? options.out + ".log.jsonl" : UserPath(FLAGS_log);
  options.command = command_line;
  return options;
}

absl::Status Main(const std::string& command_line) {
  DPIPE_ASSIGN_OR_RETURN(const TrainerOptions options, Options(command_line));
  DPIPE_ASSIGN_OR_RETURN(const TrainerResult result, Train(options, Say));
  const double seconds = static_cast<double>(result.training_ns) / kNanosPerSecond;
  if (!result.stopped_by.empty()) Say(absl::StrCat("Stopped by ", result.stopped_by, "."));
  Say(absl::StrFormat("\nTrained %d steps, %d images, in %s: %.1f img/s, loss %.4f", result.steps,
                      result.images, FormatDuration(result.training_ns), result.images / seconds,
                      result.loss));
  Say(absl::StrCat("Model:    ", options.out, " (diffusers layout",
                   FLAGS_ema > 0 ? ", averaged weights)" : ")"));
  if (!result.last_samples.empty()) Say(absl::StrCat("Samples:  ", result.last_samples));
  Say(absl::StrCat("Log:      ", options.log_path));
  const std::string model = FLAGS_out.empty() ? "" : absl::StrCat(" --model=", options.out);
  Say(absl::StrCat("Next:     bazel run //tools:sample --", model,
                   " --prompt=\"a large red circle left of a small blue square\"\n",
                   "          bazel run //tools:score --", model, " --untrained"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  std::string command_line = "bazel run //tools:train --";
  for (int i = 1; i < argc; ++i) absl::StrAppend(&command_line, " ", argv[i]);
  return dpipe::tools::RunCommand(argc, argv, {"train", dpipe::tools::kUsage},
                                  [&command_line] { return dpipe::tools::Main(command_line); });
}
