#include "bench/suite_runner/suite_cases.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "baselines/registry.h"
#include "bench/suite_runner/suite_backends.h"
#include "core/base/text/show.h"
#include "core/schedule/file_formats/plan_io.h"

namespace dpipe::bench {
namespace {

namespace fs = std::filesystem;

std::string NamedSuites(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".textproto") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? "none" : ShowNames(names);
}

SuiteGroup WithDefaults(SuiteGroup group) {
  if (group.dtype().empty()) group.set_dtype("fp32");
  if (group.repeats() == 0) group.set_repeats(15);
  if (group.steps() == 0) group.set_steps(4);
  if (group.warmup_steps() == 0) group.set_warmup_steps(1);
  if (group.profiles() == 0) group.set_profiles(group.repeats());
  if (group.reference_steps() == 0) group.set_reference_steps(8);
  return group;
}

absl::Status CheckGroup(const SuiteGroup& group, const std::string& where) {
  const auto wrong = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", parts...));
  };
  if (group.backends().empty() || group.models().empty() || group.strategies().empty() ||
      group.global_batches().empty()) {
    return wrong(
        "backends, models, strategies and global_batches must each have at least one entry");
  }
  for (const std::string& strategy : group.strategies()) {
    const absl::Status status = FindStrategy(strategy).status();
    if (!status.ok()) return wrong(status.message());
  }
  for (const int batch : group.global_batches()) {
    if (batch < 1) return wrong("a global batch is ", batch, "; it must be at least 1");
  }
  for (const int devices : group.devices()) {
    if (devices < 1) return wrong("a number of devices is ", devices, "; it must be at least 1");
  }
  if (group.dtype() != "fp32" && group.dtype() != "bf16") {
    return wrong("dtype is '", group.dtype(), "'; expected fp32 or bf16");
  }
  for (const int count : {group.repeats(), group.steps(), group.warmup_steps(), group.profiles(),
                          group.reference_steps()}) {
    if (count < 1)
      return wrong("a number of repeats, steps or profiles is ", count, "; it must be at least 1");
  }
  if (group.micro_batches() < 0)
    return wrong("micro_batches is ", group.micro_batches(), "; it must not be negative");
  return absl::OkStatus();
}

class Expansion {
 public:
  absl::Status Add(const SuiteGroup& group, const std::string& where) {
    for (const std::string& name : group.backends()) {
      const SuiteBackend* backend = FindBackend(name);
      if (backend == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": unknown backend '", name, "'; there are ", BackendNames()));
      }
      for (const SuiteModel& model : group.models()) {
        DPIPE_RETURN_IF_ERROR(AddModel(group, *backend, model, where));
      }
    }
    return absl::OkStatus();
  }

  std::vector<SuiteCase> Take() { return std::move(cases_); }

 private:
  absl::Status AddModel(const SuiteGroup& group, const SuiteBackend& backend,
                        const SuiteModel& model, const std::string& where) {
    SuiteCase one;
    one.backend = backend.name;
    one.model = model;
    one.settings = group;
    if (model.name().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": a model has no name"));
    }
    const bool has_place =
        backend.on_this_machine ? !group.devices().empty() : !group.clusters().empty();
    if (!has_place || (!backend.on_this_machine && model.profile().empty())) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": backend ", backend.name, " needs ",
                       backend.on_this_machine ? "devices" : "clusters and the model's profile"));
    }
    for (const int batch : group.global_batches()) {
      one.global_batch = batch;
      if (backend.on_this_machine) {
        for (const int devices : group.devices()) {
          one.num_devices = devices;
          const char* unit = devices == 1 ? "_device" : "_devices";
          DPIPE_RETURN_IF_ERROR(AddCase(one, absl::StrCat(devices, unit), where));
        }
      } else {
        for (const std::string& cluster : group.clusters()) {
          one.cluster = cluster;
          DPIPE_RETURN_IF_ERROR(AddCase(one, fs::path(cluster).stem().string(), where));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddCase(SuiteCase one, const std::string& place, const std::string& where) {
    one.id = absl::StrCat(one.backend, ".", one.model.name(), ".", place, ".batch_",
                          one.global_batch, one.settings.dtype() == "fp32" ? "" : ".bf16");
    one.id = absl::StrReplaceAll(one.id, {{"/", "-"}, {" ", "_"}});
    if (!ids_.insert(one.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", one.id, " is in the suite twice"));
    }
    cases_.push_back(std::move(one));
    return absl::OkStatus();
  }

  std::vector<SuiteCase> cases_;
  std::set<std::string> ids_;
};

}  // namespace

absl::StatusOr<Suite> ReadSuite(const std::string& name_or_path, const std::string& suites_folder) {
  std::string path = name_or_path;
  if (!absl::EndsWith(path, ".textproto")) {
    path = absl::StrCat(suites_folder, "/", name_or_path, ".textproto");
    if (!fs::exists(path)) {
      return absl::NotFoundError(absl::StrCat("there is no suite '", ShowText(name_or_path),
                                              "'; there are ", NamedSuites(suites_folder),
                                              ", or the path of a .textproto"));
    }
  }
  Suite suite;
  DPIPE_RETURN_IF_ERROR(ReadTextProto(path, &suite));
  if (suite.name().empty()) suite.set_name(fs::path(path).stem().string());
  return suite;
}

absl::StatusOr<std::vector<SuiteCase>> ExpandSuite(const Suite& suite) {
  Expansion expansion;
  for (int i = 0; i < suite.groups_size(); ++i) {
    const SuiteGroup group = WithDefaults(suite.groups(i));
    const std::string where = absl::StrCat("suite ", suite.name(), ", group ", i + 1);
    DPIPE_RETURN_IF_ERROR(CheckGroup(group, where));
    DPIPE_RETURN_IF_ERROR(expansion.Add(group, where));
  }
  return expansion.Take();
}

}  // namespace dpipe::bench
