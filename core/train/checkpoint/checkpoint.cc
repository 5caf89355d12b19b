#include "core/train/checkpoint/checkpoint.h"

#include "absl/strings/str_cat.h"
#include "core/base/text/json.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "dpipe.training_state";
constexpr int kVersion = 1;
// For a run with a new sample order: older programs, which would ignore it, must refuse to resume.
constexpr int kNewOrderVersion = 2;

class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  template <typename T>
  void Read(const char* name, T* value) {
    const auto it = json_.find(name);
    if (it == json_.end() || !it->is_number()) {
      Note(absl::StrCat("'", name, "' is missing or not a number"));
    } else {
      *value = it->get<T>();
    }
  }
  void Read(const char* name, std::map<std::string, std::string>* values) {
    const auto it = json_.find(name);
    if (it == json_.end() || !it->is_object()) return Note(absl::StrCat("'", name, "' is missing"));
    for (const auto& [key, value] : it->items()) {
      if (!value.is_string()) return Note(absl::StrCat("'", name, ".", key, "' is not a string"));
      (*values)[key] = value.get<std::string>();
    }
  }
  // Reads a field that earlier versions did not write.
  void ReadIfPresent(const char* name, std::string* value) {
    const auto it = json_.find(name);
    if (it == json_.end()) return;
    if (!it->is_string()) return Note(absl::StrCat("'", name, "' is not a string"));
    *value = it->get<std::string>();
  }
  template <typename T>
  void ReadIfPresent(const char* name, T* value) {
    if (json_.find(name) != json_.end()) Read(name, value);
  }
  void Note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json& json_;
  std::string problem_;
};

// JSON has no infinities or NaN; a mean that is not a number restarts.
double Finite(double value) { return value - value == 0 ? value : 0; }

}  // namespace

std::string CheckpointInfoText(const CheckpointInfo& info) {
  const bool has_loss = Finite(info.loss_sum) == info.loss_sum;
  Json json;
  json["format"] = kFormat;
  json["version"] = info.order.first_step > 0 ? kNewOrderVersion : kVersion;
  json["step"] = info.step;
  json["num_updates"] = info.num_updates;
  json["num_steps"] = info.num_steps;
  json["seed"] = info.seed;
  json["global_batch"] = info.global_batch;
  json["dataset_size"] = info.dataset_size;
  json["data_fingerprint"] = info.data_fingerprint;
  if (info.order.first_step > 0) {
    json["order_first_step"] = info.order.first_step;
    json["epochs_before_order"] = info.order.epochs_before;
  }
  json["epoch"] = info.epoch();
  json["epoch_position"] = info.epoch_position();
  json["learning_rate"] = Finite(info.learning_rate);
  json["training_ns"] = info.training_ns;
  json["loss_sum"] = has_loss ? info.loss_sum : 0;
  json["loss_weight"] = has_loss ? info.loss_weight : 0;
  json["skipped_steps"] = info.skipped_steps;
  json["config"] = info.config;
  json["plan_for"] = info.plan_for;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<CheckpointInfo> ParseCheckpointInfo(const std::string& text) {
  const absl::StatusOr<Json> parsed = ParseJsonObject<Json>(text, "JSON");
  if (!parsed.ok() || parsed->value("format", Json()) != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is not a ", kFormat,
                     parsed.ok() ? "" : absl::StrCat(": ", parsed.status().message())));
  }
  const Json& json = *parsed;
  const Json version = json.value("version", Json());
  if (version != kVersion && version != kNewOrderVersion) {
    return absl::InvalidArgumentError(absl::StrCat("its version is ", ShowJson(version),
                                                   ", this program reads ", kVersion, " and ",
                                                   kNewOrderVersion));
  }
  CheckpointInfo info;
  Fields fields(json);
  fields.Read("step", &info.step);
  fields.Read("num_updates", &info.num_updates);
  fields.Read("num_steps", &info.num_steps);
  fields.Read("seed", &info.seed);
  fields.Read("global_batch", &info.global_batch);
  fields.Read("dataset_size", &info.dataset_size);
  fields.ReadIfPresent("data_fingerprint", &info.data_fingerprint);
  fields.ReadIfPresent("order_first_step", &info.order.first_step);
  fields.ReadIfPresent("epochs_before_order", &info.order.epochs_before);
  fields.Read("learning_rate", &info.learning_rate);
  fields.Read("training_ns", &info.training_ns);
  fields.Read("loss_sum", &info.loss_sum);
  fields.Read("loss_weight", &info.loss_weight);
  fields.Read("skipped_steps", &info.skipped_steps);
  fields.Read("config", &info.config);
  fields.Read("plan_for", &info.plan_for);
  if (info.step < 0 || info.num_updates < 0) {
    fields.Note(absl::StrCat(info.num_updates, " updates in ", info.step, " steps"));
  }
  if (info.order.first_step < 0 || info.order.first_step > info.step) {
    fields.Note(absl::StrCat("the order begins at step ", info.order.first_step, ", after step ",
                             info.step));
  }
  if (!fields.problem().empty()) return absl::InvalidArgumentError(fields.problem());
  return info;
}

}  // namespace dpipe
