#include "core/ops/cuda/engine_choices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "nlohmann/json.hpp"

namespace dpipe::ops::cuda {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "OpenDiffusionPipe engine choices 1";
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

constexpr int kRounds = 5;
// Duration of a turn, long enough that the cost of events does not matter, and its maximum number
// of runs.
constexpr Nanos kTurn = 1000000;
constexpr int kMaxRuns = 20;

double Median(std::vector<Nanos> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

double Microseconds(const std::vector<Nanos>& times) {
  return times.empty() ? 0 : Median(times) / 1000;
}

}  // namespace

namespace internal {

int FastestEngine(const std::vector<std::vector<Nanos>>& times) {
  constexpr double kNoise = 0.03;
  int best = -1;
  for (int i = 0; i < static_cast<int>(times.size()); ++i) {
    if (times[i].empty()) continue;
    if (best < 0 || Median(times[i]) < Median(times[best])) best = i;
  }
  if (best < 0) return 0;
  const bool first_runs = !times[0].empty();
  return first_runs && Median(times[best]) > (1 - kNoise) * Median(times[0]) ? 0 : best;
}

absl::StatusOr<std::vector<std::vector<Nanos>>> TimeEngines(Device& device,
                                                            const std::vector<Engine>& engines) {
  std::vector<std::vector<Nanos>> times(engines.size());
  std::vector<bool> runs(engines.size());
  std::vector<int> repeats(engines.size(), 1);
  // Returns the time of `count` runs of an engine. Kernels are loaded when they first run.
  const auto time = [&](size_t i, int count) -> absl::StatusOr<Nanos> {
    const std::shared_ptr<DeviceEvent> begin = device.RecordEvent();
    for (int run = 0; run < count; ++run) DPIPE_RETURN_IF_ERROR(engines[i].run());
    const std::shared_ptr<DeviceEvent> end = device.RecordEvent();
    DPIPE_RETURN_IF_ERROR(device.Synchronize());
    return std::max<Nanos>(1, (end->time_ns() - begin->time_ns()) / count);
  };
  for (size_t i = 0; i < engines.size(); ++i) {
    runs[i] = engines[i].run().ok();
    DPIPE_RETURN_IF_ERROR(device.Synchronize());
    if (!runs[i]) continue;
    const absl::StatusOr<Nanos> one = time(i, 1);
    runs[i] = one.ok();
    if (one.ok()) repeats[i] = static_cast<int>(std::clamp<Nanos>(kTurn / *one, 1, kMaxRuns));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < engines.size(); ++i) {
      if (!runs[i]) continue;
      DPIPE_ASSIGN_OR_RETURN(const Nanos took, time(i, repeats[i]));
      times[i].push_back(took);
    }
  }
  return times;
}

}  // namespace internal

EngineChoices& EngineChoices::OfProcess() {
  static auto* const choices = new EngineChoices();
  return *choices;
}

absl::Status EngineChoices::Open(const std::string& path, bool time_engines, bool keep) {
  std::map<EngineUse, Choice> choices;
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok() && !(time_engines && absl::IsNotFound(text.status()))) {
    return absl::Status(
        text.status().code(),
        absl::StrCat("cannot read the file of engine choices: ", text.status().message()));
  }
  if (text.ok()) {
    DPIPE_ASSIGN_OR_RETURN(const json file, ParseJsonObject<json>(*text, path));
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is not a file of engine choices: ", what));
    };
    if (file.value("format", json()) != kFormat) {
      return wrong(absl::StrCat("its format is not \"", kFormat, "\""));
    }
    const json entries = file.value("choices", json());
    if (!entries.is_array()) return wrong("it has no list \"choices\"");
    for (const json& entry : entries) {
      for (const char* name : {"operation", "device", "library", "engine"}) {
        if (!entry.is_object() || !entry.value(name, json()).is_string()) {
          return wrong(absl::StrCat("choice ", choices.size(), " has no string \"", name, "\""));
        }
      }
      const auto number = [&entry](const char* name) {
        const json value = entry.value(name, json());
        return value.is_number() ? value.get<double>() : 0.0;
      };
      choices[{entry["operation"], entry["device"], entry["library"]}] = {
          entry["engine"], number("microseconds"), number("first_microseconds"),
          static_cast<int>(number("num_timed"))};
    }
  }
  absl::MutexLock lock(&mutex_);
  path_ = path;
  time_others_ = time_engines;
  keep_ = keep;
  choices_ = std::move(choices);
  return absl::OkStatus();
}

void EngineChoices::set_deterministic(bool deterministic) {
  absl::MutexLock lock(&mutex_);
  deterministic_ = deterministic;
}

bool EngineChoices::deterministic() const {
  absl::MutexLock lock(&mutex_);
  return deterministic_;
}

bool EngineChoices::in_use() const {
  absl::MutexLock lock(&mutex_);
  return time_others_ || !choices_.empty();
}

absl::StatusOr<std::string> EngineChoices::Choose(
    EngineUse use, Device& device, const std::function<std::vector<Engine>()>& engines) {
  absl::MutexLock lock(&mutex_);
  if (!deterministic_) absl::StrAppend(&use.operation, ", in any order");
  const auto found = choices_.find(use);
  if (found != choices_.end()) return found->second.engine;
  const bool is_recording = device.graphs() != nullptr && device.graphs()->recording();
  if (!time_others_ || is_recording) return std::string();

  const std::vector<Engine> candidates = engines();
  if (candidates.empty()) return std::string();
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::vector<Nanos>> times,
                         internal::TimeEngines(device, candidates));
  const int fastest = internal::FastestEngine(times);
  choices_[use] = {candidates[fastest].name, Microseconds(times[fastest]), Microseconds(times[0]),
                   static_cast<int>(candidates.size())};
  DPIPE_RETURN_IF_ERROR(Write());
  return candidates[fastest].name;
}

absl::Status EngineChoices::Write() const {
  if (!keep_) return absl::OkStatus();
  json entries = json::array();
  for (const auto& [use, choice] : choices_) {
    entries.push_back({{"operation", use.operation},
                       {"device", use.device},
                       {"library", use.library},
                       {"engine", choice.engine},
                       {"microseconds", choice.microseconds},
                       {"first_microseconds", choice.first_microseconds},
                       {"num_timed", choice.num_timed}});
  }
  const json file = {{"format", kFormat}, {"choices", entries}};
  return WriteFileAtomically(path_, absl::StrCat(file.dump(1), "\n"));
}

}  // namespace dpipe::ops::cuda
