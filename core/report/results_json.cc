// Converts results to JSON and back. The library's exceptions stop here.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/text/json.h"
#include "core/report/results.h"
#include "core/report/stats.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "dpipe.bench_results";
constexpr int kFormatVersion = 1;

Json MachineToJson(const MachineInfo& machine) {
  Json json = {{"cpu_model", machine.cpu_model},
               {"num_logical_cores", machine.num_logical_cores},
               {"num_physical_cores", machine.num_physical_cores},
               {"memory_bytes", machine.memory_bytes},
               {"kernel", machine.kernel},
               {"operating_system", machine.operating_system},
               {"compiler", machine.compiler}};
  if (!machine.gpus.empty()) json["gpus"] = machine.gpus;
  if (!machine.gpu_driver.empty()) json["gpu_driver"] = machine.gpu_driver;
  return json;
}

Json PlanToJson(const PlanSummary& plan) {
  return {{"stages", plan.num_stages},
          {"micro_batches", plan.num_micro_batches},
          {"micro_batch_size", plan.micro_batch_size},
          {"devices_per_pipeline", plan.devices_per_pipeline},
          {"description", plan.description}};
}

Json LossCheckToJson(const LossCheck& check) {
  return {{"reference", check.reference},
          {"steps", check.num_steps},
          {"max_relative_difference", check.max_relative_difference},
          {"tolerance", check.tolerance},
          {"max_gradient_norm_difference", check.max_gradient_norm_difference},
          {"gradient_norm_tolerance", check.gradient_norm_tolerance}};
}

Json StorageToJson(const StorageCost& storage) {
  return {{"disk_bytes", storage.disk_bytes},
          {"images", storage.num_images},
          {"captions", storage.num_captions},
          {"fill_ms", storage.fill_ms}};
}

Json InstructionTimesToJson(const std::vector<InstructionTimes>& times) {
  Json json = Json::array();
  for (const InstructionTimes& one : times) {
    json.push_back({{"work", one.work},
                    {"device", one.device},
                    {"per_step", one.per_step},
                    {"measured_ms", one.measured_ms},
                    {"predicted_ms", one.predicted_ms}});
  }
  return json;
}

Json ResultToJson(const StrategyResult& result) {
  const Spread spread = SpreadOf(result.images_per_second);
  Json json;
  json["strategy"] = result.strategy;
  json["is_unfilled_pipeline"] = result.is_unfilled_pipeline;
  json["images_per_second"] = {{"median", result.MedianImagesPerSecond()},
                               {"samples", result.images_per_second}};
  json["speedup_vs_data_parallel"] = result.speedup_vs_data_parallel;
  json["speedup_vs_best_unfilled_pipeline"] = result.speedup_vs_best_unfilled_pipeline;
  json["bubble_ratio"] = {{"measured", result.bubble_ratio_measured},
                          {"predicted", result.bubble_ratio_predicted}};
  json["step_ms"] = {{"measured", result.MedianStepMs()},
                     {"predicted", result.step_ms_predicted},
                     {"planned", result.step_ms_planned},
                     {"samples", result.step_ms}};
  json["step_over_bound"] = result.step_over_bound;
  json["peak_memory_bytes"] = result.LargestPeakMemoryBytes();
  json["peak_memory_bytes_by_device"] = result.peak_memory_bytes;
  json["losses"] = result.losses;
  json["gradient_norms"] = result.gradient_norms;
  json["spread"] = {{"min", spread.min}, {"max", spread.max}, {"mad", spread.mad}};
  json["skipped"] = result.skipped;
  json["invalid"] = result.invalid;
  json["loss_check"] = LossCheckToJson(result.loss_check);
  json["idle_by_reason"] = result.idle_by_reason;
  json["clips_gradients"] = result.clips_gradients;
  json["changes_mathematics"] = result.changes_mathematics;
  json["session_group"] = result.session_group;
  if (result.storage.num_images > 0) json["storage"] = StorageToJson(result.storage);
  json["instruction_times"] = InstructionTimesToJson(result.instruction_times);
  json["plan"] = PlanToJson(result.plan);
  return json;
}

// Reads values by key and records the first error, so that reading code is a plain list of Get
// calls.
class Reader {
 public:
  Reader(const Json& json, std::string path, absl::Status* status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json_.is_object()) Fail(path_, "an object");
  }

  Reader Child(const char* key) const { return Reader(At(key), Path(key), status_); }
  // Returns readers for the elements of a list; none if it is not a list.
  std::vector<Reader> Children(const char* key) const {
    std::vector<Reader> children;
    for (const Json& item : Items(key)) {
      children.push_back(Reader(item, absl::StrCat(Path(key), "[", children.size(), "]"), status_));
    }
    return children;
  }
  bool Has(const char* key) const { return json_.is_object() && json_.contains(key); }

  void Get(const char* key, std::string* value) const {
    const Json& at = At(key);
    if (at.is_string()) {
      *value = at.get<std::string>();
    } else {
      Fail(Path(key), "a string");
    }
  }
  void Get(const char* key, bool* value) const {
    const Json& at = At(key);
    if (at.is_boolean()) {
      *value = at.get<bool>();
    } else {
      Fail(Path(key), "true or false");
    }
  }
  void Get(const char* key, int* value) const {
    int64_t wide = 0;
    GetInteger(At(key), Path(key), &wide);
    if (wide != static_cast<int>(wide)) Fail(Path(key), "an integer of 32 bits");
    *value = static_cast<int>(wide);
  }
  void Get(const char* key, int64_t* value) const { GetInteger(At(key), Path(key), value); }
  void Get(const char* key, double* value) const { GetDouble(At(key), Path(key), value); }
  void Get(const char* key, std::vector<double>* values) const {
    for (const Json& item : Items(key)) {
      values->push_back(0);
      GetDouble(item, Path(key), &values->back());
    }
  }
  void Get(const char* key, std::vector<int64_t>* values) const {
    for (const Json& item : Items(key)) {
      values->push_back(0);
      GetInteger(item, Path(key), &values->back());
    }
  }
  void Get(const char* key, std::vector<std::string>* values) const {
    for (const Json& item : Items(key)) {
      if (item.is_string()) {
        values->push_back(item.get<std::string>());
      } else {
        Fail(Path(key), "a list of strings");
      }
    }
  }
  void Get(const char* key, std::map<std::string, double>* values) const {
    const Json& at = At(key);
    if (!at.is_object()) return Fail(Path(key), "an object");
    for (const auto& [name, item] : at.items()) {
      GetDouble(item, absl::StrCat(Path(key), ".", name), &(*values)[name]);
    }
  }
  void Get(const char* key, std::map<std::string, std::string>* values) const {
    const Json& at = At(key);
    if (!at.is_object()) return Fail(Path(key), "an object");
    for (const auto& [name, item] : at.items()) {
      if (item.is_string()) {
        (*values)[name] = item.get<std::string>();
      } else {
        Fail(absl::StrCat(Path(key), ".", name), "a string");
      }
    }
  }

 private:
  // Returns the elements of a list; none if it is not a list.
  const Json& Items(const char* key) const {
    const Json& at = At(key);
    if (at.is_array()) return at;
    Fail(Path(key), "a list");
    static const Json* const kEmpty = new Json(Json::array());
    return *kEmpty;
  }
  std::string Path(const char* key) const {
    return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
  }
  const Json& At(const char* key) const {
    static const Json* const kNull = new Json(nullptr);
    if (!json_.is_object()) return *kNull;
    const auto found = json_.find(key);
    return found == json_.end() ? *kNull : *found;
  }
  void GetInteger(const Json& at, const std::string& path, int64_t* value) const {
    if (at.is_number_integer()) {
      *value = at.get<int64_t>();
    } else {
      Fail(path, "an integer");
    }
  }
  void GetDouble(const Json& at, const std::string& path, double* value) const {
    if (at.is_number()) {
      *value = at.get<double>();
    } else if (at.is_null()) {
      *value = kNotMeasured;
    } else {
      Fail(path, "a number or null");
    }
  }
  void Fail(const std::string& path, const char* expected) const {
    if (!status_->ok()) return;
    *status_ = absl::InvalidArgumentError(absl::StrCat(
        "benchmark results: ", path.empty() ? "the file" : path, " is missing or not ", expected));
  }

  const Json& json_;
  std::string path_;
  absl::Status* status_;
};

void ReadMachine(const Reader& reader, MachineInfo* machine) {
  reader.Get("cpu_model", &machine->cpu_model);
  reader.Get("num_logical_cores", &machine->num_logical_cores);
  reader.Get("num_physical_cores", &machine->num_physical_cores);
  reader.Get("memory_bytes", &machine->memory_bytes);
  reader.Get("kernel", &machine->kernel);
  reader.Get("operating_system", &machine->operating_system);
  reader.Get("compiler", &machine->compiler);
  if (reader.Has("gpus")) reader.Get("gpus", &machine->gpus);
  if (reader.Has("gpu_driver")) reader.Get("gpu_driver", &machine->gpu_driver);
}

void ReadPlan(const Reader& reader, PlanSummary* plan) {
  reader.Get("stages", &plan->num_stages);
  reader.Get("micro_batches", &plan->num_micro_batches);
  reader.Get("micro_batch_size", &plan->micro_batch_size);
  reader.Get("devices_per_pipeline", &plan->devices_per_pipeline);
  reader.Get("description", &plan->description);
}

void ReadLossCheck(const Reader& reader, LossCheck* check) {
  reader.Get("reference", &check->reference);
  reader.Get("steps", &check->num_steps);
  reader.Get("max_relative_difference", &check->max_relative_difference);
  reader.Get("tolerance", &check->tolerance);
  if (!reader.Has("gradient_norm_tolerance")) return;
  reader.Get("max_gradient_norm_difference", &check->max_gradient_norm_difference);
  reader.Get("gradient_norm_tolerance", &check->gradient_norm_tolerance);
}

void ReadStorage(const Reader& reader, StorageCost* storage) {
  reader.Get("disk_bytes", &storage->disk_bytes);
  reader.Get("images", &storage->num_images);
  reader.Get("captions", &storage->num_captions);
  reader.Get("fill_ms", &storage->fill_ms);
}

InstructionTimes ReadInstructionTimes(const Reader& reader) {
  InstructionTimes times;
  reader.Get("work", &times.work);
  reader.Get("device", &times.device);
  reader.Get("per_step", &times.per_step);
  reader.Get("measured_ms", &times.measured_ms);
  reader.Get("predicted_ms", &times.predicted_ms);
  return times;
}

// Medians, spread and maximum memory are derived from the samples and not read.
StrategyResult ReadResult(const Reader& reader) {
  StrategyResult result;
  reader.Get("strategy", &result.strategy);
  reader.Get("is_unfilled_pipeline", &result.is_unfilled_pipeline);
  reader.Child("images_per_second").Get("samples", &result.images_per_second);
  reader.Get("speedup_vs_data_parallel", &result.speedup_vs_data_parallel);
  reader.Get("speedup_vs_best_unfilled_pipeline", &result.speedup_vs_best_unfilled_pipeline);
  reader.Child("bubble_ratio").Get("measured", &result.bubble_ratio_measured);
  reader.Child("bubble_ratio").Get("predicted", &result.bubble_ratio_predicted);
  reader.Child("step_ms").Get("predicted", &result.step_ms_predicted);
  reader.Child("step_ms").Get("planned", &result.step_ms_planned);
  reader.Child("step_ms").Get("samples", &result.step_ms);
  reader.Get("step_over_bound", &result.step_over_bound);
  reader.Get("peak_memory_bytes_by_device", &result.peak_memory_bytes);
  reader.Get("losses", &result.losses);
  if (reader.Has("gradient_norms")) reader.Get("gradient_norms", &result.gradient_norms);
  if (reader.Has("skipped")) reader.Get("skipped", &result.skipped);
  if (reader.Has("invalid")) reader.Get("invalid", &result.invalid);
  if (reader.Has("loss_check")) ReadLossCheck(reader.Child("loss_check"), &result.loss_check);
  if (reader.Has("idle_by_reason")) reader.Get("idle_by_reason", &result.idle_by_reason);
  if (reader.Has("clips_gradients")) reader.Get("clips_gradients", &result.clips_gradients);
  if (reader.Has("changes_mathematics")) {
    reader.Get("changes_mathematics", &result.changes_mathematics);
  } else {
    result.changes_mathematics = !result.clips_gradients;
  }
  if (reader.Has("session_group")) reader.Get("session_group", &result.session_group);
  if (reader.Has("storage")) ReadStorage(reader.Child("storage"), &result.storage);
  if (reader.Has("instruction_times")) {
    for (const Reader& child : reader.Children("instruction_times")) {
      result.instruction_times.push_back(ReadInstructionTimes(child));
    }
  }
  ReadPlan(reader.Child("plan"), &result.plan);
  return result;
}

}  // namespace

std::string ResultsToJson(const BenchResults& results) {
  Json json;
  json["format"] = kFormat;
  json["format_version"] = kFormatVersion;
  json["benchmark"] = results.benchmark;
  json["model"] = results.model;
  json["backend"] = results.backend;
  json["dtype"] = results.dtype;
  json["num_devices"] = results.num_devices;
  json["global_batch"] = results.global_batch;
  json["created"] = results.created;
  json["command_line"] = results.command_line;
  json["interrupted"] = results.interrupted;
  json["machine"] = MachineToJson(results.machine);
  json["versions"] = results.versions;
  json["flags"] = results.flags;
  json["results"] = Json::array();
  for (const StrategyResult& result : results.results) {
    json["results"].push_back(ResultToJson(result));
  }
  // Bytes that are not UTF-8 (such as a file name in a flag) become U+FFFD instead of an exception.
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<BenchResults> ResultsFromJson(absl::string_view json) {
  DPIPE_ASSIGN_OR_RETURN(const Json parsed, ParseJson<Json>(json, "benchmark results"));
  absl::Status status;
  const Reader reader(parsed, "", &status);
  std::string format;
  int version = 0;
  reader.Get("format", &format);
  reader.Get("format_version", &version);
  DPIPE_RETURN_IF_ERROR(status);
  if (format != kFormat || version != kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat("benchmark results: format is ", format,
                                                   " version ", version, ", expected ", kFormat,
                                                   " version ", kFormatVersion));
  }
  BenchResults results;
  reader.Get("benchmark", &results.benchmark);
  reader.Get("model", &results.model);
  reader.Get("backend", &results.backend);
  reader.Get("dtype", &results.dtype);
  reader.Get("num_devices", &results.num_devices);
  reader.Get("global_batch", &results.global_batch);
  reader.Get("created", &results.created);
  reader.Get("command_line", &results.command_line);
  if (reader.Has("interrupted")) reader.Get("interrupted", &results.interrupted);
  ReadMachine(reader.Child("machine"), &results.machine);
  reader.Get("versions", &results.versions);
  reader.Get("flags", &results.flags);
  for (const Reader& child : reader.Children("results")) {
    results.results.push_back(ReadResult(child));
  }
  DPIPE_RETURN_IF_ERROR(status);
  return results;
}

}  // namespace dpipe::report
