#include "models/trainable/training_setup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/report/machine.h"
#include "models/trainable/load.h"

namespace dpipe::models {

namespace {

// Larger quanta have less overhead; beyond 4 images of 64 x 64 the kernels gain nothing more.
int DefaultFrozenQuantum(int global_batch, int num_devices) {
  for (int quantum : {4, 2}) {
    if (global_batch % (quantum * num_devices) == 0) return quantum;
  }
  return 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingSetup>> TrainingSetup::Create(
    const TrainingSetupOptions& options) {
  auto setup = std::unique_ptr<TrainingSetup>(new TrainingSetup());
  setup->options_ = options;
  DPIPE_ASSIGN_OR_RETURN(setup->model_, LoadTrainableModel(options.model_folder, options.model));
  DataLoaderOptions loading;
  loading.global_batch = options.global_batch;
  loading.image_size = setup->model_->image_size();
  loading.seed = options.seed;
  loading.with_conditions = setup->model_->wants_conditions();
  DPIPE_ASSIGN_OR_RETURN(setup->data_, OpenTrainingData(options.data, loading));
  DPIPE_ASSIGN_OR_RETURN(setup->inputs_, setup->model_->MakeInputs(setup->data_.training.get(),
                                                                   setup->inputs_options()));
  DPIPE_RETURN_IF_ERROR(setup->StartDevices());
  DPIPE_RETURN_IF_ERROR(setup->FillJob());
  return setup;
}

absl::Status TrainingSetup::StartDevices() {
  const int num_devices =
      options_.num_devices > 0 ? options_.num_devices : static_cast<int>(AllowedCores().size());
  DPIPE_ASSIGN_OR_RETURN(const auto devices, Device::PartitionCpu(num_devices));
  workers_ = StartWorkers(devices);
  return absl::OkStatus();
}

absl::Status TrainingSetup::FillJob() {
  job_.model = &model_->model();
  for (const auto& worker : workers_) job_.workers.push_back(worker.get());
  job_.inputs = inputs_.get();
  job_.frozen_parameters = model_->frozen_parameters();
  const auto start =
      options_.init_random ? TrainableModel::Start::kRandom : TrainableModel::Start::kFolder;
  DPIPE_ASSIGN_OR_RETURN(job_.backbone_parameters, model_->InitialParameters(start, options_.seed));
  for (int index : job_.model->backbones()) {
    if (job_.model->component(index).self_conditioning.input.empty()) continue;
    job_.self_conditioning = {options_.self_conditioning_probability, options_.seed};
  }
  job_.optimizer = options_.optimizer;
  job_.compute_dtype = options_.compute_dtype;
  job_.frozen_quantum =
      options_.frozen_quantum > 0
          ? options_.frozen_quantum
          : DefaultFrozenQuantum(options_.global_batch, static_cast<int>(workers_.size()));
  return absl::OkStatus();
}

void TrainingSetup::ReleaseInitialParameters() {
  for (int index : job_.model->backbones()) {
    const nn::Program& program = job_.model->component(index).program;
    for (int i = 0; i < program.num_parameters(); ++i) {
      const nn::ParameterInfo& parameter = program.parameter(nn::ParameterId(i));
      if (program.layer(parameter.layer).kind != nn::LayerKind::kTrainable) continue;
      job_.backbone_parameters.erase(parameter.name);
    }
  }
}

InputsOptions TrainingSetup::inputs_options() const {
  InputsOptions drawing;
  drawing.seed = options_.seed;
  drawing.caption_drop = options_.caption_drop;
  drawing.mean_latents = options_.mean_latents;
  drawing.offset_noise = options_.offset_noise;
  drawing.timesteps = options_.timesteps;
  drawing.compute_dtype = options_.compute_dtype;
  return drawing;
}

std::string TrainingSetup::Describe() const {
  const report::MachineInfo machine = report::CollectMachineInfo();
  std::string data = absl::StrCat(data_.training->dataset().size(), " images in ",
                                  data_.training->dataset().name());
  if (data_.held_out != nullptr) {
    absl::StrAppend(&data, "; evaluated on ", data_.held_out->options().global_batch, " of ",
                    data_.held_out->dataset().size(), " held out");
  }
  return absl::StrCat("Model:    ", model_->Describe(), ", ", DTypeName(options_.compute_dtype),
                      "\n", "Data:     ", data, "\n",
                      "Machine:  ", report::DescribeMachine(machine), "; ", workers_.size(),
                      " device(s) of ", workers_[0]->device()->num_threads(), " core(s) each");
}

absl::StatusOr<const CachedInputs*> TrainingSetup::BuildCache(
    int64_t num_steps, const std::function<void(double)>& on_progress) {
  CacheRequest request;
  request.loader = data_.training.get();
  request.num_steps = num_steps;
  request.cache_folder = options_.cache_folder;
  DPIPE_ASSIGN_OR_RETURN(cached_inputs_, model_->MakeCachedInputs(request, inputs_options(),
                                                                  job_.workers, on_progress));
  job_.inputs = cached_inputs_.provider.get();
  return &cached_inputs_;
}

}  // namespace dpipe::models
