#include "core/proto/profile_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "google/protobuf/text_format.h"

namespace dpipe {
namespace {

// Returns the message on one line, with repeated numbers as a list.
std::string Line(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  DPIPE_CHECK(printer.PrintToString(message, &text));
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

void AppendLine(const google::protobuf::Message& message, std::string* text) {
  const std::string line = Line(message);
  if (!line.empty()) absl::StrAppend(text, line, "\n");
}

void AppendLayer(LayerProfile layer, std::string* text) {
  const std::string timings =
      absl::StrJoin(layer.timings(), ", ", [](std::string* out, const LayerTiming& timing) {
        absl::StrAppend(out, "{ ", Line(timing), " }");
      });
  layer.clear_timings();
  absl::StrAppend(text, "  layers { ", Line(layer));
  if (!timings.empty()) absl::StrAppend(text, "\n    timings: [", timings, "]");
  absl::StrAppend(text, " }\n");
}

void AppendComponent(const ComponentProfile& component, std::string* text) {
  ComponentProfile head = component;
  head.clear_layers();
  head.clear_values();
  absl::StrAppend(text, "components {\n  ", Line(head), "\n");
  for (const LayerProfile& layer : component.layers()) AppendLayer(layer, text);
  for (const ValueProfile& value : component.values()) {
    absl::StrAppend(text, "  values { ", Line(value), " }\n");
  }
  absl::StrAppend(text, "}\n");
}

}  // namespace

std::string ProfileText(const ModelProfile& profile) {
  ModelProfile head = profile;
  head.clear_components();
  head.clear_provenance();
  ModelProfile provenance;
  provenance.set_provenance(profile.provenance());
  std::string text =
      "# proto-file: core/proto/profile.proto\n# proto-message: dpipe.ModelProfile\n";
  AppendLine(head, &text);
  AppendLine(provenance, &text);
  for (const ComponentProfile& component : profile.components()) AppendComponent(component, &text);
  return text;
}

}  // namespace dpipe
