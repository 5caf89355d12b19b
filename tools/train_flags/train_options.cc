#include "tools/train_flags/train_options.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "core/base/files/file.h"
#include "core/base/files/local_path.h"
#include "core/base/files/run_paths.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "google/protobuf/message.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/folder/find_folders.h"
#include "models/trainable/load.h"
#include "tools/train_flags/config_flags.h"
#include "tools/training/run_folder.h"

namespace dpipe::tools {
namespace {

absl::Status ReadConfigFile(const std::string& path, TrainConfig* config) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(UserPath(path)));
  return AsCommandLineError(MergeConfigText(text, path, config));
}

// Ten years. A longer run should have no limit.
constexpr double kMaxMinutes = 10.0 * 365 * 24 * 60;

// Returns the path, such as "optimizer.lr", of the first number that is NaN or infinite; empty if
// all are finite.
std::string FieldNotFinite(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::string inner = FieldNotFinite(reflection.GetMessage(message, field));
      if (!inner.empty()) return absl::StrCat(field->name(), ".", inner);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      bool finite = field->is_repeated() || std::isfinite(reflection.GetDouble(message, field));
      for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
        finite = finite && std::isfinite(reflection.GetRepeatedDouble(message, field, i));
      }
      if (!finite) return field->name();
    }
  }
  return "";
}

// Refuses strategies that keep state between steps that checkpoints do not contain.
absl::StatusOr<Strategy> ResumableStrategy(const std::string& spec) {
  auto found = FindStrategy(spec);
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(found.status()));
  Strategy strategy = *std::move(found);
  if (strategy.compress().empty() || strategy.compress() == "none") return strategy;
  return CommandLineError(absl::StrCat("--strategy=", spec, ": compressed gradients (compress='",
                                       strategy.compress(), "') keep a residual that ",
                                       "checkpoints do not contain; use ",
                                       "//bench:inexact_methods to run them"));
}

// If weights lag behind, no stage knows the norm of all gradients [algorithms.md §8], so they are
// not clipped. Refuses clipping that was asked for; only warns if it is the default.
absl::StatusOr<double> MaxGradNorm(const TrainConfig& config, const Strategy& strategy,
                                   const std::function<void(const std::string&)>& say) {
  const double norm = config.optimizer().max_grad_norm();
  const bool lags_behind = !strategy.weights().empty() && strategy.weights() != "exact";
  if (!lags_behind || norm == 0) return norm;
  if (config.optimizer().has_max_grad_norm()) {
    return CommandLineError(absl::StrCat(
        "optimizer.max_grad_norm is ", norm, ", but with --strategy=", config.strategy(),
        " (weights='", strategy.weights(),
        "') it must be 0: weights lag behind, so that no stage knows the norm of all gradients; "
        "use --max_grad_norm=0, which trains without clipping, or leave it out"));
  }
  say(absl::StrCat("Warning:  gradients are not clipped: with --strategy=", config.strategy(),
                   " weights lag behind, and no stage knows the norm of all gradients"));
  return 0;
}

absl::StatusOr<AdamWOptions> OptimizerOptions(const TrainConfig& config) {
  AdamWOptions options;
  const OptimizerConfig& optimizer = config.optimizer();
  options.adamw.beta1 = static_cast<float>(optimizer.beta1());
  options.adamw.beta2 = static_cast<float>(optimizer.beta2());
  options.adamw.eps = static_cast<float>(optimizer.eps());
  options.adamw.weight_decay = static_cast<float>(optimizer.weight_decay());
  options.moments = optimizer.moments() == "int8" ? MomentsFormat::kInt8 : MomentsFormat::kFp32;
  options.learning_rate.peak = static_cast<float>(optimizer.lr());
  DPIPE_ASSIGN_OR_RETURN(options.learning_rate.shape, ParseLrShape(config.lr().shape()));
  options.learning_rate.warmup_steps = config.lr().warmup();
  options.learning_rate.floor = static_cast<float>(config.lr().floor());
  options.learning_rate.power = config.lr().power();
  options.learning_rate.cycles = config.lr().cycles();
  options.ema_decay = config.ema().decay();
  options.ema_every = config.ema().update_every();
  options.ema_start = config.ema().start_step();
  return options;
}

absl::StatusOr<models::LoadModelOptions> ModelOptions(const TrainConfig& config) {
  models::LoadModelOptions options;
  options.kind = config.model().kind();
  options.image_size = config.model().image_size();
  options.max_sequence_length = config.model().max_sequence_length();
  options.lora.rank = config.model().lora_rank();
  options.lora.targets = absl::StrSplit(config.model().lora_targets(), ',', absl::SkipEmpty());
  if (config.model().lora_rank() > 0 && config.model().lora_alpha() > 0) {
    options.lora.scale =
        static_cast<float>(config.model().lora_alpha() / config.model().lora_rank());
  }
  DPIPE_ASSIGN_OR_RETURN(options.lora_format,
                         models::ParseLoraFormat(config.model().lora_format()));
  DPIPE_ASSIGN_OR_RETURN(options.base_storage,
                         ops::ParseWeightStorage(config.model().base_dtype()));
  DPIPE_ASSIGN_OR_RETURN(options.frozen_storage,
                         ops::ParseWeightStorage(config.model().frozen_dtype()));
  options.min_snr_gamma = config.objective().min_snr_gamma();
  options.self_conditioning = config.objective().self_conditioning() > 0;
  if (!config.objective().prediction_type().empty()) {
    DPIPE_ASSIGN_OR_RETURN(options.prediction_type,
                           diffusion::ParsePredictionType(config.objective().prediction_type()));
  }
  if (!config.objective().zero_terminal_snr().empty()) {
    options.zero_terminal_snr = config.objective().zero_terminal_snr() == "true";
  }
  if (config.objective().timesteps() == "uniform") {
    options.flow_density = diffusion::FlowDensity::kUniform;
  } else if (config.objective().timesteps() == "logit_normal") {
    options.flow_density = diffusion::FlowDensity::kLogitNormal;
  } else if (config.objective().timesteps() == "mode") {
    options.flow_density = diffusion::FlowDensity::kMode;
  }
  options.flow_sampling.logit_mean = config.objective().logit_mean();
  options.flow_sampling.logit_std = config.objective().logit_std();
  options.flow_sampling.mode_scale = config.objective().mode_scale();
  options.flow_sampling.shift = config.objective().timestep_shift();
  DPIPE_ASSIGN_OR_RETURN(options.flow_weight,
                         diffusion::ParseFlowWeight(config.objective().loss_weighting()));
  return options;
}

absl::StatusOr<models::TrainingDataOptions> DataOptions(
    const TrainConfig& config, const std::string& model_folder,
    const std::function<void(const std::string&)>& say) {
  models::TrainingDataOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.folder, models::FindDataFor(model_folder, config.model().kind(),
                                                             config.data().path(), say));
  options.file_column = config.data().file_column();
  options.caption_column = config.data().caption_column();
  if (config.data().optional_captions() || !config.data().default_caption().empty()) {
    options.default_caption = config.data().default_caption();
  }
  options.min_side = config.data().min_side();
  options.random_flip = config.data().flip();
  options.random_crop = config.data().crop();
  options.max_corrupt = config.data().max_corrupt();
  options.max_corrupt_share = config.data().max_corrupt_share();
  if (!config.evaluation().data().empty()) {
    DPIPE_RETURN_IF_ERROR(
        CheckIsLocal("evaluation.data", config.evaluation().data(), HubKind::kDataset));
    options.held_out_folder = UserPath(config.evaluation().data());
  }
  options.held_out_share = config.evaluation().share();
  options.held_out_samples = config.evaluation().samples();
  return options;
}

// For a built-in model, "auto" means random weights, because its purpose is training from scratch.
models::TrainingSetupOptions::Weights WeightsOf(const ModelConfig& model) {
  using Weights = models::TrainingSetupOptions::Weights;
  if (model.init() == "checkpoint") return Weights::kFolder;
  if (model.init() == "random") return Weights::kRandom;
  const bool is_random = models::IsBuiltInModel(model.path()) && model.lora_rank() == 0;
  return is_random ? Weights::kRandom : Weights::kFolderIfAny;
}

absl::StatusOr<models::TrainingSetupOptions> SetupOptions(
    const TrainConfig& config, const std::function<void(const std::string&)>& say) {
  models::TrainingSetupOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.model, ModelOptions(config));
  DPIPE_ASSIGN_OR_RETURN(options.optimizer, OptimizerOptions(config));
  options.backend = config.backend();
  options.num_devices = config.devices();
  options.virtual_devices = config.virtual_devices();
  if (!config.engines().empty()) options.engines = UserPath(config.engines());
  options.time_engines = config.time_engines();
  options.deterministic = config.deterministic();
  options.graphs.enabled = config.cuda_graphs();
  options.graphs.say = say;
  options.global_batch = config.global_batch();
  DPIPE_ASSIGN_OR_RETURN(options.compute_dtype, ParseComputeDType(config.dtype()));
  options.frozen_quantum = config.frozen_quantum();
  options.max_aspect = config.data().max_aspect();
  options.patch_share = config.data().patch_share();
  options.seed = config.seed();
  options.caption_drop = config.objective().caption_drop();
  options.mean_latents = config.objective().mean_latents();
  options.offset_noise = config.objective().offset_noise();
  if (config.objective().timesteps() == "speed") {
    options.timesteps = diffusion::TimestepSampling::kSpeed;
  }
  if (config.objective().self_conditioning() > 0) {
    options.self_conditioning_probability = config.objective().self_conditioning();
  }
  options.weights = WeightsOf(config.model());
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(config.model().path()));
  DPIPE_ASSIGN_OR_RETURN(options.data, DataOptions(config, options.model_folder, say));
  return options;
}

void SetEvaluation(const EvaluationConfig& config, TrainerOptions* options) {
  options->evaluate_every = config.every();
  options->evaluation_quantiles.assign(config.quantiles().begin(), config.quantiles().end());
  if (config.quantiles().empty()) {
    for (int i = 0; i < 10; ++i) options->evaluation_quantiles.push_back((i + 0.5) / 10);
  }
  options->evaluate_saved = config.weights() != "trained";
  options->evaluate_trained = config.weights() != "saved";
  options->keep_best = config.keep_best();
}

absl::Status SetSamples(const TrainConfig& config, TrainerOptions* options) {
  const SamplesConfig& samples = config.samples();
  options->sample_every = samples.every();
  options->sample_at_end = samples.at_end();
  options->sample_prompts.assign(samples.prompts().begin(), samples.prompts().end());
  options->draw.num_steps = samples.steps();
  options->draw.guidance = static_cast<float>(samples.guidance());
  options->draw.seed = config.seed();
  DPIPE_ASSIGN_OR_RETURN(options->draw.kind, diffusion::ParseSampler(samples.sampler()));
  return absl::OkStatus();
}

absl::Status SetOutputs(const OutputConfig& config, TrainerOptions* options) {
  options->out = config.path().empty() ? OutputPath("out/train") : UserPath(config.path());
  while (options->out.size() > 1 && options->out.back() == '/') options->out.pop_back();
  options->save_every = config.save_every();
  DPIPE_ASSIGN_OR_RETURN(options->format, models::ParseStoredFormat(config.store()));
  const RunFolder run(options->out);
  options->model_out = run.model();
  options->best_out = run.best();
  options->sample_folder = run.samples();
  options->log_path = config.log().empty() ? run.log() : UserPath(config.log());
  if (config.mllog()) options->mllog_path = run.mllog();
  if (config.tensorboard()) options->tensorboard_folder = run.tensorboard();
  options->config_path = run.config();
  options->kept_profile_path = run.profile();
  options->kept_cluster_path = run.cluster();
  return absl::OkStatus();
}

void SetCheckpoints(const CheckpointConfig& config, TrainerOptions* options) {
  CheckpointOptions& checkpoints = options->checkpoints;
  checkpoints.folder = RunFolder(options->out).checkpoints();
  checkpoints.every = config.every();
  checkpoints.retention.keep_last = config.keep_last();
  checkpoints.retention.keep_every = config.keep_every();
  checkpoints.in_background = config.background();
  checkpoints.stop_on_error = config.on_error() == "stop";
  const std::string& resume = config.resume();
  const bool is_folder = resume != "" && resume != "auto" && resume != "never";
  checkpoints.resume = is_folder ? UserPath(resume) : resume;
  checkpoints.replan = config.replan();
  checkpoints.allow_config_change = config.allow_config_change();
  checkpoints.allow_data_change = config.allow_data_change();
  checkpoints.defaults = ConfigValues(TrainConfig());
}

// The caller sets the processes themselves.
void SetJob(const JobConfig& config, TrainerOptions* options) {
  options->setup.deadline = absl::Seconds(config.deadline());
}

void SetFaults(const FaultConfig& config, TrainerOptions* options) {
  options->faults.max_skipped_in_a_row = config.not_finite() == "skip" ? config.max_skipped() : 0;
  options->faults.num_dumps = config.dumps();
  options->faults.dump_folder = RunFolder(options->out).bad_batches();
}

}  // namespace

absl::StatusOr<TrainCommand> ParseTrainCommand(const std::vector<std::string>& arguments) {
  TrainCommand command;
  auto flags = SplitFlags(arguments, command.config);
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(flags.status()));
  for (const ConfigFlag& flag : *flags) {
    if (flag.name == "config" && flag.has_value) {
      DPIPE_RETURN_IF_ERROR(ReadConfigFile(flag.value, &command.config));
    }
  }
  for (const ConfigFlag& flag : *flags) {
    if (flag.name == "help" || flag.name == "h") {
      command.help = true;
    } else if (flag.name == "print_config") {
      command.print_config = true;
    } else if (flag.name == "check") {
      if (flag.has_value) {
        return CommandLineError(absl::StrCat("--check=", flag.value, ": --check takes no value"));
      }
      command.check = true;
    } else if (flag.name == "config") {
      if (!flag.has_value) return CommandLineError("--config has no value; use --config=FILE");
    } else {
      DPIPE_RETURN_IF_ERROR(AsCommandLineError(ApplyConfigFlag(flag, &command.config)));
    }
  }
  return command;
}

absl::Status CheckTrainConfig(const TrainConfig& config) {
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(CheckConfig(config)));
  const std::string not_finite = FieldNotFinite(config);
  if (!not_finite.empty()) {
    return CommandLineError(absl::StrCat("--", not_finite, "=", ConfigValues(config).at(not_finite),
                                         ": it must be a finite number"));
  }
  if (config.model().lora_rank() > 0 && config.model().init() == "random") {
    return CommandLineError(absl::StrCat("--model.lora_rank=", config.model().lora_rank(),
                                         " adapts trained weights, but --init=random; leave --init "
                                         "out, or set it to checkpoint"));
  }
  if (config.model().lora_rank() == 0 && config.model().lora_format() != "diffusers") {
    return CommandLineError(absl::StrCat("--model.lora_format=", config.model().lora_format(),
                                         " names adapters, but none are trained; use it with "
                                         "--model.lora_rank=N"));
  }
  if (config.model().lora_rank() == 0 && !config.model().lora_targets().empty()) {
    return CommandLineError(absl::StrCat("--model.lora_targets=", config.model().lora_targets(),
                                         " names layers to adapt, but no adapters are trained; use "
                                         "it with --model.lora_rank=N"));
  }
  if (config.minutes() > kMaxMinutes) {
    return CommandLineError(absl::StrFormat(
        "--minutes=%g is more than %.0f, ten years; --minutes=0 with --steps sets no limit",
        config.minutes(), kMaxMinutes));
  }
  if (config.steps() == 0 && config.minutes() == 0) {
    return CommandLineError("--steps=0 and --minutes=0: one of them must end training");
  }
  if (config.evaluation().share() > 0 && !config.evaluation().data().empty()) {
    return CommandLineError(absl::StrCat("--evaluation.share=", config.evaluation().share(),
                                         " and --evaluation.data=", config.evaluation().data(),
                                         ": held-out data is a share or a folder, not both"));
  }
  const bool holds_out = config.evaluation().share() > 0 || !config.evaluation().data().empty();
  if (config.evaluation().every() > 0 && !holds_out) {
    return CommandLineError(
        absl::StrCat("--evaluation.every=", config.evaluation().every(),
                     " needs held-out data: --evaluation.share or --evaluation.data"));
  }
  if (config.evaluation().keep_best() && !holds_out) {
    return CommandLineError(
        "--evaluation.keep_best needs held-out data: --evaluation.share or --evaluation.data");
  }
  if (config.evaluation().keep_best() && config.evaluation().weights() == "trained" &&
      config.ema().decay() > 0) {
    return CommandLineError(absl::StrCat(
        "--evaluation.keep_best compares losses of the saved weights, which are the average of "
        "--ema.decay=",
        config.ema().decay(), ", but --evaluation.weights=trained; it must be saved or both"));
  }
  if (config.profile().empty() != config.cluster().empty()) {
    return CommandLineError(absl::StrCat("--profile=", config.profile(), " and --cluster=",
                                         config.cluster(), ": give both or neither"));
  }
  DPIPE_RETURN_IF_ERROR(ResumableStrategy(config.strategy()).status());
  if (config.micro_batches() > 0 && config.global_batch() % config.micro_batches() != 0) {
    return CommandLineError(
        absl::StrCat("--global_batch=", config.global_batch(),
                     " does not divide into --micro_batches=", config.micro_batches()));
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainerOptions> OptionsOf(const TrainConfig& config,
                                         const std::function<void(const std::string&)>& say) {
  TrainerOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.strategy, ResumableStrategy(config.strategy()));
  DPIPE_ASSIGN_OR_RETURN(options.setup, SetupOptions(config, say));
  DPIPE_ASSIGN_OR_RETURN(options.setup.optimizer.max_grad_norm,
                         MaxGradNorm(config, options.strategy, say));
  options.num_micro_batches = config.micro_batches();
  options.max_micro_batch = config.max_micro_batch();
  if (!config.profile().empty()) options.profile_path = UserPath(config.profile());
  if (!config.cluster().empty()) options.cluster_path = UserPath(config.cluster());
  options.num_steps = config.steps();
  options.time_limit_ns = static_cast<Nanos>(config.minutes() * 60 * kNanosPerSecond);
  options.config = WholeConfigText(config);
  options.config_fields = ConfigValues(config);
  if (!config.data().cache().empty()) options.setup.cache_folder = UserPath(config.data().cache());
  SetEvaluation(config.evaluation(), &options);
  DPIPE_RETURN_IF_ERROR(SetSamples(config, &options));
  DPIPE_RETURN_IF_ERROR(SetOutputs(config.output(), &options));
  options.setup.data.quarantine_path = RunFolder(options.out).quarantine();
  options.setup.data.sizes_path = RunFolder(options.out).image_sizes();
  SetCheckpoints(config.checkpoints(), &options);
  SetFaults(config.faults(), &options);
  SetJob(config.job(), &options);
  return options;
}

}  // namespace dpipe::tools
