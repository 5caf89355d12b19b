// For tests: compares a Program's parameters with the lists in this folder.
#ifndef DPIPE_MODELS_TESTDATA_PARAMETER_LIST_H_
#define DPIPE_MODELS_TESTDATA_PARAMETER_LIST_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/nn/program.h"

namespace dpipe::models {

inline std::string ReadTestdata(const std::string& name) {
  const auto text = ReadFile("models/testdata/" + name);
  DPIPE_CHECK(text.ok()) << text.status();
  return *text;
}

// Returns sorted lines "name dim dim ...".
inline std::vector<std::string> ExpectedParameters(const std::string& name) {
  return absl::StrSplit(ReadTestdata(name), '\n', absl::SkipEmpty());
}

inline std::vector<std::string> ParametersOf(const std::vector<const nn::Program*>& programs) {
  std::vector<std::string> lines;
  for (const nn::Program* program : programs) {
    for (int i = 0; i < program->num_parameters(); ++i) {
      const nn::ParameterInfo& info = program->parameter(nn::ParameterId(i));
      lines.push_back(info.name);
      for (int64_t d : info.shape.dims()) absl::StrAppend(&lines.back(), " ", d);
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_PARAMETER_LIST_H_
