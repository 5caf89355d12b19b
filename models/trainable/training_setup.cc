#include "models/trainable/training_setup.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/backend/choose_devices.h"
#include "core/backend/connect_ranks.h"
#include "core/base/count.h"
#include "core/base/phases.h"
#include "core/report/machine.h"
#include "models/trainable/data_report.h"
#include "models/trainable/frozen_quantum.h"
#include "models/trainable/load.h"

namespace dpipe::models {
namespace {

// Indents a line to the text of the first one.
constexpr char kNextLine[] = "\n          ";

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingSetup>> TrainingSetup::Create(
    const TrainingSetupOptions& options) {
  const Phase phase("set up training");
  auto setup = std::unique_ptr<TrainingSetup>(new TrainingSetup());
  setup->options_ = options;
  LoadModelOptions model = options.model;
  model.coordinates = model.coordinates || options.patch_share > 0;
  {
    const Phase loading("load the model but for its backbone");
    DPIPE_ASSIGN_OR_RETURN(setup->model_, LoadTrainableModel(options.model_folder, model));
  }
  DataLoaderOptions loading;
  loading.global_batch = options.global_batch;
  loading.image_size = setup->model_->image_size();
  loading.seed = options.seed;
  loading.prefetch_threads = options.prefetch_threads;
  loading.with_conditions = setup->model_->wants_conditions();
  DPIPE_ASSIGN_OR_RETURN(loading.buckets, setup->Buckets());
  DPIPE_ASSIGN_OR_RETURN(loading.patches, setup->Patches());
  TrainingDataOptions data = options.data;
  data.keeps_quarantine = data.keeps_quarantine && options.writes_files;
  const bool leads = options.processes == nullptr || options.processes->is_leader();
  data.keeps_sizes = data.keeps_sizes && options.writes_files && leads;
  {
    const Phase opening("open the data");
    DPIPE_ASSIGN_OR_RETURN(setup->data_, OpenTrainingData(data, loading));
  }
  DPIPE_ASSIGN_OR_RETURN(setup->inputs_, setup->model_->MakeInputs(setup->data_.training.get(),
                                                                   setup->inputs_options()));
  DPIPE_RETURN_IF_ERROR(setup->StartDevices());
  DPIPE_RETURN_IF_ERROR(setup->FillJob());
  return setup;
}

absl::StatusOr<std::vector<ImageSize>> TrainingSetup::Buckets() const {
  if (options_.max_aspect == 1) return std::vector<ImageSize>();
  BucketOptions buckets;
  buckets.base_side = model_->image_size();
  buckets.step = model_->size_multiple();
  buckets.max_aspect = options_.max_aspect;
  if (buckets.step == 0) {
    return absl::InvalidArgumentError(absl::StrCat("max_aspect is ", options_.max_aspect, ", but ",
                                                   model_->Describe(),
                                                   ", is trained at one size only"));
  }
  return MakeBuckets(buckets);
}

absl::StatusOr<std::vector<PatchSize>> TrainingSetup::Patches() const {
  if (options_.patch_share == 0) return std::vector<PatchSize>();
  const std::string given = absl::StrCat("patch_share is ", options_.patch_share);
  if (options_.max_aspect != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        given, " and max_aspect is ", options_.max_aspect, ": patches need square pictures"));
  }
  if (!model_->takes_coordinates()) {
    return absl::InvalidArgumentError(
        absl::StrCat(given, ", but ", model_->Describe(), ", takes no patch coordinates"));
  }
  return MakePatchSizes(model_->image_size(), model_->size_multiple(), options_.patch_share);
}

int TrainingSetup::num_processes() const {
  return options_.processes == nullptr ? 1 : options_.processes->num_processes();
}

absl::Status TrainingSetup::StartDevices() {
  const Phase phase("start the devices");
  DeviceRequest request;
  request.backend = options_.backend;
  request.count = options_.num_devices;
  request.virtual_devices = options_.virtual_devices;
  request.engines = options_.engines;
  request.time_engines = options_.time_engines;
  request.keeps_engines = options_.writes_files;
  request.deterministic = options_.deterministic;
  DPIPE_ASSIGN_OR_RETURN(const ChosenDevices chosen,
                         options_.processes == nullptr
                             ? ChooseDevices(request)
                             : ChooseDevicesTogether(request, options_.processes));
  device_line_ = DescribeDevices(chosen);
  if (num_processes() > 1) {
    absl::StrAppend(&device_line_, "; the same in each of ", num_processes(), " processes");
  }
  if (options_.graphs.enabled && chosen.devices[0]->graphs() == nullptr) {
    absl::StrAppend(&device_line_, "; passes are not recorded as CUDA graphs, because ",
                    chosen.devices[0]->name(), " is not a GPU");
  }
  workers_ = StartWorkers(chosen.devices);
  return absl::OkStatus();
}

// The largest size in use (the squarest one if several are equal) is profiled and planned for, so
// that no step needs more memory than the plan states.
absl::Status TrainingSetup::ChooseModels() {
  std::vector<DataLoader::SizeInUse> sizes = data_.training->SizesInUse();
  std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
    const auto rank = [](ImageSize size) {
      return std::make_tuple(-int64_t{size.width} * size.height, std::max(size.width, size.height),
                             size.width);
    };
    return rank(a.size) < rank(b.size);
  });
  std::map<std::pair<int, int>, int> numbers;
  for (const DataLoader::SizeInUse& use : sizes) {
    sizes_.push_back(use.size);
    const nn::Model* model = &model_->model();
    if (use.size.width != model_->image_size() || use.size.height != model_->image_size()) {
      DPIPE_ASSIGN_OR_RETURN(nn::Model sized, model_->MakeModel(use.size));
      sized_models_.push_back(std::make_unique<nn::Model>(std::move(sized)));
      model = sized_models_.back().get();
    }
    if (numbers.empty()) {
      job_.model = model;
      job_.profiled_step = use.first_step;
    } else {
      job_.sizes.others.push_back(model);
    }
    numbers.emplace(std::make_pair(use.size.width, use.size.height), numbers.size());
  }
  if (numbers.size() == 1) return absl::OkStatus();
  job_.sizes.model_of = [loader = data_.training.get(), numbers](int64_t step) {
    const ImageSize size = loader->SizeOf(step);
    return numbers.at({size.width, size.height});
  };
  return absl::OkStatus();
}

// Adapters need trained weights: if there are none, reading them returns an error.
TrainableModel::Start TrainingSetup::start() const {
  using Weights = TrainingSetupOptions::Weights;
  const bool takes_folder = options_.weights == Weights::kFolder ||
                            (options_.weights == Weights::kFolderIfAny &&
                             (model_->has_weights() || options_.model.lora.rank > 0));
  return takes_folder ? TrainableModel::Start::kFolder : TrainableModel::Start::kRandom;
}

absl::Status TrainingSetup::FillJob() {
  const Phase phase("open the backbone's weights");
  DPIPE_RETURN_IF_ERROR(ChooseModels());
  for (const auto& worker : workers_) job_.workers.push_back(worker.get());
  job_.inputs = inputs_.get();
  job_.frozen_parameters = model_->frozen_parameters();
  job_.load_frozen = [model = model_.get()](int component, LayerRange layers) {
    return model->LoadFrozen(component, layers);
  };
  DPIPE_ASSIGN_OR_RETURN(job_.backbone_parameters, model_->InitialSource(start(), options_.seed));
  for (int index : job_.model->backbones()) {
    if (job_.model->component(index).self_conditioning.input.empty()) continue;
    job_.self_conditioning = {options_.self_conditioning_probability, options_.seed};
  }
  job_.processes = options_.processes;
  job_.should_stop = options_.should_stop;
  job_.deadline = options_.deadline;
  job_.connect = ConnectRanks;
  job_.connect_in_job = ConnectJobRank;
  job_.optimizer = options_.optimizer;
  job_.compute_dtype = options_.compute_dtype;
  job_.graphs = options_.graphs;
  const int num_devices = static_cast<int>(workers_.size()) * num_processes();
  job_.frozen_quantum = options_.frozen_quantum > 0
                            ? options_.frozen_quantum
                            : DefaultFrozenQuantum(options_.global_batch, num_devices);
  return absl::OkStatus();
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
  const MachineInfo machine = report::CollectMachineInfo();
  std::string data = absl::StrCat(Count(data_.training->dataset().size(), "image"), " in ",
                                  data_.training->dataset().name());
  const std::vector<DataLoader::SizeInUse> sizes = data_.training->SizesInUse();
  if (sizes.size() > 1 && options_.patch_share == 0) {
    absl::StrAppend(&data, ", in ", Count(sizes.size(), "size"));
  } else if (sizes.size() > 1) {
    absl::StrAppend(&data, ", patches of ",
                    absl::StrJoin(sizes, ", ", [](std::string* out, auto use) {
                      absl::StrAppend(out, use.size.width, " x ", use.size.height);
                    }));
  }
  if (data_.held_out != nullptr) {
    absl::StrAppend(&data, "; evaluated on ", data_.held_out->options().global_batch, " of ",
                    data_.held_out->dataset().size(), " held out");
  }
  for (const std::string& line : DescribeSamples(*data_.training, model_->tokenizer())) {
    absl::StrAppend(&data, kNextLine, line);
  }
  for (const std::string& note : data_.notes) absl::StrAppend(&data, kNextLine, note);
  std::string model = absl::StrCat(model_->Describe(), ", ", DTypeName(options_.compute_dtype));
  for (const std::string& note : model_->notes(start())) {
    absl::StrAppend(&model, kNextLine, note);
  }
  return absl::StrCat("Model:    ", model, "\n", DescribeWeights(), "\n", "Data:     ", data, "\n",
                      "Machine:  ", report::DescribeMachine(machine), "\n",
                      "Device:   ", device_line_);
}

std::string TrainingSetup::DescribeWeights() const {
  const std::string trained = options_.weights_from.empty()
                                  ? model_->DescribeStart(start(), options_.seed)
                                  : options_.weights_from;
  const std::string frozen = model_->DescribeFrozen();
  return absl::StrCat("Weights:  ", trained, frozen.empty() ? "" : "; ", frozen);
}

std::vector<std::string> TrainingSetup::TakeDeviceNotes() {
  std::vector<std::string> lines;
  for (const auto& worker : workers_) {
    for (const std::string& note : worker->device()->notes()) {
      // Notes are the same on every device.
      if (!reported_notes_.insert(note).second) continue;
      lines.push_back(absl::StrCat("Note:     on ", worker->device()->name(), " ", note));
    }
  }
  return lines;
}

absl::StatusOr<const CachedInputs*> TrainingSetup::BuildCache(
    int64_t num_steps, const std::function<void(double)>& on_progress) {
  const Phase phase("compute the cache");
  CacheRequest request;
  request.loader = data_.training.get();
  request.first_step = data_.training->order().first_step();
  request.num_steps = num_steps;
  request.profiled_step = job_.profiled_step;
  request.frozen_quantum = job_.frozen_quantum;
  if (options_.processes == nullptr) request.should_stop = options_.should_stop;
  if (options_.writes_files) request.cache_folder = options_.cache_folder;
  DPIPE_ASSIGN_OR_RETURN(cached_inputs_, model_->MakeCachedInputs(request, inputs_options(),
                                                                  job_.workers, on_progress));
  job_.inputs = cached_inputs_.provider.get();
  rest_models_.clear();
  for (size_t i = 0; cache_is_partial() && i < sizes_.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(nn::Model rest, cached_inputs_.make_rest(sizes_[i]));
    rest_models_.push_back(std::make_unique<nn::Model>(std::move(rest)));
  }
  return &cached_inputs_;
}

TrainingJob TrainingSetup::CachedJob() const {
  TrainingJob job = job_;
  if (!cache_is_partial()) return job;
  job.model = rest_models_.front().get();
  job.sizes.others.clear();
  for (size_t i = 1; i < rest_models_.size(); ++i) {
    job.sizes.others.push_back(rest_models_[i].get());
  }
  job.frozen_parameters = cached_inputs_.rest_parameters;
  job.load_frozen = nullptr;  // the cache has read them
  return job;
}

}  // namespace dpipe::models
