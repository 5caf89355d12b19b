#include "models/stable_diffusion/training_setup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/machine.h"

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
  DPIPE_ASSIGN_OR_RETURN(setup->model_, StableDiffusion::Load(options.model_folder, options.model));
  DPIPE_ASSIGN_OR_RETURN(FolderDataset dataset, FolderDataset::Open(options.data_folder));
  DataLoaderOptions loading;
  loading.global_batch = options.global_batch;
  loading.image_size = setup->model_->image_size();
  loading.seed = options.seed;
  loading.random_crop = options.random_crop;
  loading.random_flip = options.random_flip;
  DPIPE_ASSIGN_OR_RETURN(setup->loader_, DataLoader::Create(std::move(dataset), loading));
  InputsOptions drawing;
  drawing.seed = options.seed;
  drawing.caption_drop = options.caption_drop;
  drawing.mean_latents = options.mean_latents;
  drawing.compute_dtype = options.compute_dtype;
  setup->inputs_ =
      std::make_unique<TrainingInputs>(setup->model_.get(), setup->loader_.get(), drawing);

  const int num_devices =
      options.num_devices > 0 ? options.num_devices : static_cast<int>(AllowedCores().size());
  DPIPE_ASSIGN_OR_RETURN(const auto devices, Device::PartitionCpu(num_devices));
  setup->workers_ = StartWorkers(devices);

  TrainingJob& job = setup->job_;
  job.model = &setup->model_->model();
  for (const auto& worker : setup->workers_) job.workers.push_back(worker.get());
  job.inputs = setup->inputs_.get();
  job.frozen_parameters = setup->model_->frozen_parameters();
  if (options.init_random) {
    job.backbone_parameters = setup->model_->RandomUNet(options.seed);
  } else {
    DPIPE_ASSIGN_OR_RETURN(job.backbone_parameters, setup->model_->LoadUNet());
  }
  job.optimizer = options.optimizer;
  job.compute_dtype = options.compute_dtype;
  job.frozen_quantum = options.frozen_quantum > 0
                           ? options.frozen_quantum
                           : DefaultFrozenQuantum(options.global_batch, num_devices);
  return setup;
}

std::string TrainingSetup::Describe() const {
  const nn::Program& unet = model_->model().component(kUNet).program;
  const int64_t parameters = unet.ParameterCount(unet.all_layers());
  const report::MachineInfo machine = report::CollectMachineInfo();
  return absl::StrCat(
      "Model:    ", model_->model().name(), ", ", absl::StrFormat("%.2f", parameters / 1e6),
      " M trainable parameters in ", unet.num_layers(), " layers, ", model_->image_size(), " x ",
      model_->image_size(), " pixels, ", DTypeName(options_.compute_dtype),
      model_->frozen_is_random() ? ";\n          random frozen components, as the folder has no "
                                   "weights (pictures will mean nothing)"
                                 : "",
      "\n", "Data:     ", loader_->dataset().size(), " images in ", loader_->dataset().name(), "\n",
      "Machine:  ", report::DescribeMachine(machine), "; ", workers_.size(), " device(s) of ",
      workers_[0]->device()->num_threads(), " core(s) each");
}

absl::StatusOr<const FrozenCache*> TrainingSetup::BuildCache(
    int64_t num_steps, const std::function<void(double)>& on_progress) {
  FrozenCache::Request request;
  request.model = model_.get();
  request.loader = loader_.get();
  request.num_steps = num_steps;
  request.compute_dtype = options_.compute_dtype;
  DPIPE_ASSIGN_OR_RETURN(cache_, FrozenCache::Build(request, job_.workers, on_progress));
  inputs_->UseCache(cache_.get());
  return cache_.get();
}

}  // namespace dpipe::models
