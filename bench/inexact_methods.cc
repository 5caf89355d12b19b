// Compares methods that change the mathematics of training with exact training: trains a model by
// each method and shows the loss on held-out images over the number of images seen.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "bench/comparison/describe_run.h"
#include "bench/simulated/curve_chart.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/show.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/planner/search.h"
#include "core/report/machine.h"
#include "core/report/table.h"
#include "core/train/held_out_loss.h"
#include "data/outputs_apart.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/training_setup.h"
#include "nlohmann/json.hpp"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(methods, "exact,pipedream,xpipe,hetpipe,l-greco,cupcake,speed,patches",
              "methods to train with, separated by commas");
DEFINE_int32(devices, 0, "number of devices to train on; 0: one per core");
DEFINE_int32(batch, 32, "images per update of the weights, over all devices");
DEFINE_int32(updates, 320,
             "total number of updates of the weights, a multiple of --window and of --points");
DEFINE_int32(window, 8,
             "updates per step of methods whose weights lag behind; at its end all weights agree "
             "again");
DEFINE_int32(points, 10, "number of evaluations during training");
DEFINE_double(lr, 1.5e-3,
              "learning rate of AdamW, reached after about 20 updates; gradients are not clipped");
DEFINE_uint64(seed, 1, "seed for initial weights, data order, noise and timesteps");
DEFINE_string(out, "", "folder for the results; empty: out/ and the benchmark's name");
FLAG_RANGE(devices, 0, 1'024);
FLAG_RANGE(batch, 1, 65'536);
FLAG_RANGE(updates, 1, 1'000'000);
FLAG_RANGE(window, 1, 1'000);
FLAG_RANGE(points, 1, 1'000'000);
FLAG_RANGE(lr, 0, 1'000);

namespace dpipe::bench {
namespace {

constexpr double kQuantiles[] = {0.1, 0.3, 0.5, 0.7, 0.9};

struct Method {
  std::string name;
  std::string strategy;
  std::string what;  // a description of the change
  bool relaxed = false;
  int micro_batches_per_update = 0;  // per pipeline; 0: the search's choice
  bool is_pipeline = false;          // over all devices
  diffusion::TimestepSampling timesteps = diffusion::TimestepSampling::kUniform;
  double patch_share = 0;
};

std::vector<Method> Methods() {
  return {
      {"exact", "1f1b", "nothing", false, 0, true},
      {"pipedream", "pipedream_stashing",
       "stashed weights; a stage lags one update per later stage", true, 1, true},
      {"xpipe", "xpipe", "forward passes with weights predicted by Adam's moments", true, 2, true},
      {"hetpipe", "hetpipe", "one worker per device, updates shared every second", true, 1, false},
      {"l-greco", "data_parallel,compress=l-greco",
       "low-rank gradients, with the rank chosen per layer", false, 0, false},
      {"cupcake", "data_parallel,compress=cupcake", "1 % of each fused gradient", false, 0, false},
      {"speed", "1f1b", "one fifth as many draws of timesteps at which noise hardly grows", false,
       0, true, diffusion::TimestepSampling::kSpeed},
      {"patches", "1f1b", "half of the steps on random patches of 1/2 or 1/4 of the side", false, 0,
       true, diffusion::TimestepSampling::kUniform, 0.5},
  };
}

absl::StatusOr<Method> FindMethod(const std::string& name) {
  std::vector<std::string> known;
  for (const Method& method : Methods()) {
    if (method.name == name) return method;
    known.push_back(method.name);
  }
  return CommandLineError(absl::StrCat("--methods: unknown method '", ShowText(name),
                                       "'; there are ", ShowNames(known)));
}

struct Outcome {
  Method method;
  Plan plan;
  std::vector<std::pair<double, double>> losses;  // images seen, held-out loss
  double images_per_s = 0;                        // over all steps, whose sizes may differ
  int64_t peak_memory_bytes = 0;                  // maximum over ranks
};

// A step is one update, or a window of updates.
int UpdatesPerStep(const Method& method) { return method.relaxed ? FLAGS_window : 1; }

absl::StatusOr<std::unique_ptr<models::TrainingSetup>> MakeSetup(const Method& method,
                                                                 const std::string& data) {
  models::TrainingSetupOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  options.data.folder = data;
  options.data.held_out_share = 0.05;
  options.num_devices = FLAGS_devices;
  options.global_batch = FLAGS_batch * UpdatesPerStep(method);
  options.seed = FLAGS_seed;
  options.mean_latents = true;
  options.timesteps = method.timesteps;
  options.patch_share = method.patch_share;
  options.optimizer.adamw.beta2 = 0.99f;
  options.optimizer.learning_rate.peak = static_cast<float>(FLAGS_lr);
  options.optimizer.learning_rate.warmup_steps =
      (20 + UpdatesPerStep(method) - 1) / UpdatesPerStep(method);
  options.optimizer.max_grad_norm = 0;
  return models::TrainingSetup::Create(options);
}

absl::StatusOr<Plan> MakePlanOf(const Method& method, const models::TrainingSetup& setup) {
  const int num_devices = static_cast<int>(setup.workers().size());
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(method.strategy));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(setup.job()));
  DPIPE_ASSIGN_OR_RETURN(
      const ModelProfile profile,
      ProfileJob(setup.job(), CandidateLocalBatches(FLAGS_batch), nullptr, /*passes=*/2));
  PlanOptions options;
  options.global_batch = FLAGS_batch * UpdatesPerStep(method);
  options.num_stages = method.is_pipeline ? num_devices : 1;
  if (method.micro_batches_per_update > 0) {
    const int workers = method.is_pipeline ? 1 : num_devices;
    options.micro_batch_size = FLAGS_batch / method.micro_batches_per_update / workers;
  }
  DPIPE_ASSIGN_OR_RETURN(PlanResult result, MakePlan(strategy, profile, cluster, options));
  return std::move(result.plan);
}

// Computes the loss on held-out images, at fixed timesteps and with fixed noise.
class Evaluation {
 public:
  static absl::StatusOr<std::unique_ptr<Evaluation>> Create(models::TrainingSetup* setup) {
    auto evaluation = std::unique_ptr<Evaluation>(new Evaluation());
    evaluation->setup_ = setup;
    DPIPE_RETURN_IF_ERROR(setup->model().LoadAllFrozen());
    HeldOutLossOptions options;
    options.model = setup->job().model;
    options.frozen_parameters = setup->job().frozen_parameters;
    options.num_samples = setup->held_out()->options().global_batch;
    models::InputsOptions drawing = setup->inputs_options();
    drawing.seed = 0;
    drawing.caption_drop = 0;
    for (double quantile : kQuantiles) {
      drawing.timestep_quantiles = {quantile};
      DPIPE_ASSIGN_OR_RETURN(evaluation->inputs_.emplace_back(),
                             setup->model().MakeInputs(setup->held_out(), drawing));
      options.inputs.push_back(evaluation->inputs_.back().get());
    }
    DPIPE_ASSIGN_OR_RETURN(evaluation->loss_, HeldOutLoss::Create(options));
    return evaluation;
  }

  absl::StatusOr<double> Loss(const std::map<std::string, Tensor>& parameters) {
    DPIPE_ASSIGN_OR_RETURN(const HeldOutLosses losses,
                           loss_->Evaluate(parameters, setup_->workers()));
    return losses.mean;
  }

 private:
  Evaluation() = default;

  models::TrainingSetup* setup_ = nullptr;
  std::vector<std::unique_ptr<InputProvider>> inputs_;
  std::unique_ptr<HeldOutLoss> loss_;
};

absl::StatusOr<Outcome> Train(const Method& method, const std::string& data) {
  DPIPE_ASSIGN_OR_RETURN(const auto setup, MakeSetup(method, data));
  std::fprintf(stderr, "%s: %s\n", method.name.c_str(), setup->DescribeWeights().c_str());
  DPIPE_ASSIGN_OR_RETURN(const auto evaluation, Evaluation::Create(setup.get()));
  Outcome outcome;
  outcome.method = method;
  DPIPE_ASSIGN_OR_RETURN(outcome.plan, MakePlanOf(method, *setup));
  DPIPE_ASSIGN_OR_RETURN(const auto session, StartSession(setup->job(), outcome.plan));
  const int per_point = FLAGS_updates / FLAGS_points / UpdatesPerStep(method);
  double images = 0, seconds = 0;
  const auto evaluate = [&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(const auto parameters, session->CollectParameters());
    DPIPE_ASSIGN_OR_RETURN(const double loss, evaluation->Loss(parameters));
    const double images = static_cast<double>(session->next_step()) * outcome.plan.global_batch();
    outcome.losses.emplace_back(images, loss);
    std::fprintf(stderr, "%-10s %6.0f images  held-out loss %.4f\n", method.name.c_str(), images,
                 loss);
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(evaluate());
  for (int point = 0; point < FLAGS_points; ++point) {
    DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                           session->Run(per_point, /*is_last=*/true, /*record=*/false));
    for (const StepResult& step : run.steps) {
      images += outcome.plan.global_batch();
      seconds += 1e-9 * static_cast<double>(step.duration_ns);
    }
    for (int64_t bytes : run.peak_memory_bytes) {
      outcome.peak_memory_bytes = std::max(outcome.peak_memory_bytes, bytes);
    }
    DPIPE_RETURN_IF_ERROR(evaluate());
  }
  outcome.images_per_s = images / seconds;
  return outcome;
}

std::string ResultTable(const std::vector<Outcome>& outcomes) {
  report::Table table(
      {"method", "change", "held-out loss", "minus exact", "img/s", "peak MiB per device"});
  for (const Outcome& outcome : outcomes) {
    const double loss = outcome.losses.back().second;
    table.AddRow({outcome.method.name, outcome.method.what, absl::StrFormat("%.4f", loss),
                  absl::StrFormat("%.4f", loss - outcomes[0].losses.back().second),
                  absl::StrFormat("%.1f", outcome.images_per_s),
                  absl::StrFormat("%.1f", outcome.peak_memory_bytes / 1048576.0)});
  }
  return absl::StrCat(
      table.ToMarkdown(), "\nNo method clips gradients, not even exact: if weights lag ",
      "behind, no stage knows the norm of all gradients. Such pipelines drain at ",
      "the end of each window of updates here, unlike the published ones, so their ",
      "img/s are lower.\n");
}

nlohmann::json ToJson(const std::vector<Outcome>& outcomes, int num_devices) {
  CaseResult about;
  DescribeRun(&about);
  nlohmann::json json = {{"benchmark", "inexact_methods"},
                         {"created", about.created()},
                         {"revision", about.versions().at("revision")},
                         {"model", FLAGS_model},
                         {"machine", report::DescribeMachine(about.machine())},
                         {"devices", num_devices},
                         {"batch", FLAGS_batch},
                         {"updates", FLAGS_updates},
                         {"window", FLAGS_window},
                         {"lr", FLAGS_lr},
                         {"seed", FLAGS_seed}};
  for (const Outcome& outcome : outcomes) {
    json["methods"].push_back({{"name", outcome.method.name},
                               {"strategy", outcome.method.strategy},
                               {"images_per_s", outcome.images_per_s},
                               {"peak_memory_bytes", outcome.peak_memory_bytes},
                               {"images_and_held_out_loss", outcome.losses}});
  }
  return json;
}

absl::Status Write(const std::string& folder, const std::vector<Outcome>& outcomes) {
  CurveChart chart{"Held-out loss by images seen", "images", "held-out loss", {}};
  for (const Outcome& outcome : outcomes) {
    // Omits the common initial loss, which is far above the rest.
    const auto first = outcome.losses.begin() + std::min<size_t>(1, outcome.losses.size() - 1);
    chart.curves.push_back(
        {outcome.method.name, {first, outcome.losses.end()}, outcome.method.name == "exact"});
  }
  const std::string table = ResultTable(outcomes);
  std::printf("\n%s\n", table.c_str());
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/curves.svg", CurveChartSvg(chart)));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/table.md", table));
  const nlohmann::json json = ToJson(outcomes, outcomes[0].plan.num_devices());
  return WriteFileAtomically(folder + "/results.json", json.dump(1) + "\n");
}

absl::Status CheckFlags() {
  if (FLAGS_updates % (FLAGS_points * FLAGS_window) != 0) {
    return CommandLineError(absl::StrCat("--updates=", FLAGS_updates,
                                         " is not a multiple of --points=", FLAGS_points,
                                         " times --window=", FLAGS_window));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  std::vector<Method> methods;
  const std::vector<std::string> names = absl::StrSplit(FLAGS_methods, ',', absl::SkipEmpty());
  for (const std::string& name : names) {
    DPIPE_ASSIGN_OR_RETURN(methods.emplace_back(), FindMethod(name));
  }
  if (methods.empty() || methods[0].name != "exact") {
    return CommandLineError("--methods must begin with exact, the reference of the others");
  }
  const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  DPIPE_ASSIGN_OR_RETURN(const std::string data, models::FindDataFolder(FLAGS_data, say));
  const std::string folder =
      FLAGS_out.empty() ? OutputPath("out/inexact_methods") : UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(CheckNotInData({"--out=", folder}, {"--data=", data}));
  std::vector<Outcome> outcomes;
  for (const Method& method : methods) {
    auto outcome = Train(method, data);
    if (!outcome.ok()) {
      return absl::Status(outcome.status().code(),
                          absl::StrCat(method.name, ": ", outcome.status().message()));
    }
    outcomes.push_back(*std::move(outcome));
  }
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  return Write(folder, outcomes);
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "inexact_methods",
      "Trains a model by methods that change the mathematics, and by an exact one, and compares\n"
      "their losses on held-out images.\n"
      "  bazel run //bench:inexact_methods -- --methods=exact,pipedream\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::bench::Run);
}
