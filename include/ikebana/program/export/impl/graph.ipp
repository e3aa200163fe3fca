#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/export/graph.hpp>
#include <sstream>

namespace ikebana::detail::exported {

inline std::string text_of_value(const c10::IValue& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// Compares the recordings, and makes one graph of them.
class GraphMaker {
 public:
  GraphMaker(std::vector<RecordedForward>& forwards, const std::vector<Values>& symbols)
      : forwards_(forwards), first_(forwards[0].recording) {
    graph_.sizes = SizeTable(symbols);
  }
  Graph make() {
    for (std::size_t r = 1; r < forwards_.size(); ++r) compare_structure(r);
    for (std::size_t i = 0; i < first_.constants.size(); ++i) compare_constant(i);
    for (std::size_t i = 0; i < first_.nodes.size(); ++i) add_node(i);
    for (std::size_t i = 0; i < first_.values.size(); ++i) add_value(i);
    graph_.constants = first_.constants;
    graph_.outputs = forwards_[0].outputs;
    return std::move(graph_);
  }

 private:
  const Recording& other(std::size_t r) const { return forwards_[r].recording; }
  std::string place(const RecordedNode& node) const {
    return place_of(name_of(node.op), node.module);
  }

  [[noreturn]] void differ(std::size_t r, const std::string& here, const std::string& there) const {
    if (forwards_[0].sizes == forwards_[r].sizes)
      throw BadModel("export_program: the model calls " + here + " for the example, and " + there +
                     " for its rows in another order: the host decides by values. Compute both, "
                     "and choose by `where`.");
    throw BadModel("export_program: the model computes in another way at other sizes: with " +
                   forwards_[0].sizes + " it calls " + here + ", and with " + forwards_[r].sizes +
                   " " + there +
                   ". Give the sizes for which it computes alike as `min`, `max` and `multiple_of` "
                   "of `dynamic`, or leave the dimension out of it.");
  }
  void compare_structure(std::size_t r) const {
    const auto &a = first_.nodes, &b = other(r).nodes;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i >= a.size()) differ(r, "nothing more", place(b[i]));
      if (i >= b.size()) differ(r, place(a[i]), "nothing more");
      if (!(a[i].op == b[i].op) || a[i].module != b[i].module) differ(r, place(a[i]), place(b[i]));
      if (!same_wiring(a[i].inputs, b[i].inputs) || !same_wiring(a[i].outputs, b[i].outputs))
        differ(r, place(a[i]), "the same with other tensors");
    }
    for (std::size_t i = 0; i < first_.values.size(); ++i)
      if (!first_.values[i].facts.is_like(other(r).values[i].facts) ||
          first_.values[i].kind != other(r).values[i].kind)
        differ(r, "an operator with a result", "another with a result of another kind");
    if (forwards_[0].outputs != forwards_[r].outputs)
      differ(r, "all operators", "the same, and returns others of their results");
  }
  static bool same_wiring(const std::vector<Operand>& a, const std::vector<Operand>& b) {
    return std::ranges::equal(a, b, [](const Operand& x, const Operand& y) {
      return x.index() == y.index() && (std::holds_alternative<c10::IValue>(x) || x == y);
    });
  }
  void compare_constant(std::size_t i) const {
    const RecordedConstant& constant = first_.constants[i];
    for (std::size_t r = 1; r < forwards_.size(); ++r) {
      const at::Tensor &a = constant.values, &b = other(r).constants[i].values;
      const std::string begin = "export_program: " + constant.used_by +
                                " reads a tensor that no operator made from the input: ";
      if (a.sizes() != b.sizes())
        throw BadModel(begin + c10::str("with ", forwards_[0].sizes, " its shape is ", a.sizes(),
                                        ", with ", forwards_[r].sizes, " ", b.sizes(),
                                        ". Make it by operators within the forward, such as "
                                        "`at::arange`, or leave the dimension out of `dynamic`."));
      if (!at::equal(a, b) &&
          !at::equal(a.isnan().logical_not().logical_and(a != b).any(), at::zeros({}, at::kBool)))
        throw BadModel(begin +
                       "the host computes it, with other values for other inputs. Compute it by "
                       "operators within the forward.");
    }
  }

  /// Returns the integer with which all recordings call an operator.
  std::optional<Size> size_of(const Values& values) { return graph_.sizes.find(values); }

  [[noreturn]] void burnt_in(const RecordedNode& node, const std::string& argument,
                             const std::vector<std::string>& values, const std::string& why) const {
    std::string list;
    for (std::size_t r = 0; r < values.size(); ++r)
      list += (r == 0 ? "" : ", ") + values[r] + " with " + forwards_[r].sizes;
    throw BadModel("export_program: " + place(node) + " is called with `" + argument + "` " + list +
                   ": a shape that would be burnt in although it is to be dynamic, since " + why +
                   ". Leave the dimension out of `dynamic`, or compute by operators that take "
                   "sizes of tensors.");
  }
  void add_node(std::size_t i) {
    const RecordedNode& node = first_.nodes[i];
    GraphNode made{node.op, {}, node.outputs, node.module};
    for (std::size_t a = 0; a < node.inputs.size(); ++a) made.inputs.push_back(argument(i, a));
    graph_.nodes.push_back(std::move(made));
  }
  Argument argument(std::size_t i, std::size_t a) {
    const Operand& operand = first_.nodes[i].inputs[a];
    if (const auto* id = std::get_if<ValueId>(&operand)) return *id;
    if (const auto* list = std::get_if<ValueList>(&operand)) return *list;
    const auto in = [&](std::size_t r) -> const c10::IValue& {
      return std::get<c10::IValue>(other(r).nodes[i].inputs[a]);
    };
    const c10::IValue& value = in(0);
    bool is_same = true;
    for (std::size_t r = 1; r < forwards_.size(); ++r) is_same = is_same && same(value, in(r));
    if (is_same) return value;
    return changing(i, a, in);
  }
  /// Returns true if the values are equal. NaN is equal to itself.
  static bool same(const c10::IValue& a, const c10::IValue& b) {
    if (a.isDouble() && b.isDouble() && a.toDouble() != a.toDouble())
      return b.toDouble() != b.toDouble();
    return a.tagKind() == b.tagKind() && a == b;
  }
  /// Throws if another number was given at the same sizes, because it then follows from values.
  void check_host(const RecordedNode& node, const std::string& argument,
                  const std::vector<std::string>& texts) const {
    for (std::size_t r = 1; r < forwards_.size(); ++r)
      if (forwards_[r].sizes == forwards_[0].sizes && texts[r] != texts[0])
        throw BadModel("export_program: " + place(node) + " is called with `" + argument + "` " +
                       texts[0] + ", and with " + texts[r] +
                       " for other values of the input: the host computes this number, which the "
                       "program would keep. Compute with tensors instead.");
  }
  template <class In>
  Argument changing(std::size_t i, std::size_t a, const In& in) {
    const RecordedNode& node = first_.nodes[i];
    const c10::Argument& schema = node.op.schema().arguments()[a];
    std::vector<std::string> texts;
    for (std::size_t r = 0; r < forwards_.size(); ++r) texts.push_back(text_of_value(in(r)));
    check_host(node, schema.name(), texts);
    const bool takes_sizes = schema.real_type()->str().find("SymInt") != std::string::npos ||
                             schema.real_type()->kind() == c10::TypeKind::NumberType;
    bool are_ints = true, are_lists = true;
    for (std::size_t r = 0; r < forwards_.size(); ++r) {
      are_ints = are_ints && in(r).isInt();
      are_lists =
          are_lists && in(r).isIntList() && in(r).toIntList().size() == in(0).toIntList().size();
    }
    if (!are_ints && !are_lists)
      burnt_in(node, schema.name(), texts, "only integers can follow from sizes");
    if (!takes_sizes)
      burnt_in(node, schema.name(), texts, "the operator takes a fixed number there");
    const auto found = [&](const Values& values) {
      if (const auto size = size_of(values)) return *size;
      burnt_in(node, schema.name(), texts, "it is no sum, product or quotient of the sizes");
    };
    Values values;
    if (are_ints) {
      for (std::size_t r = 0; r < forwards_.size(); ++r) values.push_back(in(r).toInt());
      return found(values);
    }
    std::vector<Size> sizes;
    for (std::size_t d = 0; d < in(0).toIntList().size(); ++d) {
      values.clear();
      for (std::size_t r = 0; r < forwards_.size(); ++r) values.push_back(in(r).toIntVector()[d]);
      sizes.push_back(found(values));
    }
    return sizes;
  }

  void add_value(std::size_t i) {
    const RecordedValue& value = first_.values[i];
    GraphValue made{value, {}, {}};
    const auto of = [&](auto member, std::size_t d) {
      Values values;
      for (std::size_t r = 0; r < forwards_.size(); ++r)
        values.push_back((other(r).values[i].facts.*member)[d]);
      return size_of(values);
    };
    for (std::size_t d = 0; d < value.facts.sizes.size(); ++d) {
      const auto size = of(&TensorFacts::sizes, d);
      if (!size) no_size(i, d);
      made.sizes.push_back(*size);
    }
    for (std::size_t d = 0; d < value.facts.strides.size(); ++d) {
      const auto stride = of(&TensorFacts::strides, d);
      // Strides are only described. A program computes with the strides that its tensors have.
      made.strides.push_back(stride ? *stride : Size{value.facts.strides[d], {}});
    }
    graph_.values.push_back(std::move(made));
  }
  [[noreturn]] void no_size(std::size_t i, std::size_t d) const {
    const auto maker = std::ranges::find_if(first_.nodes, [&](const RecordedNode& node) {
      bool makes = false;
      for (const Operand& one : node.outputs)
        each_value(one, [&](ValueId id) { makes = makes || id == i; });
      return makes;
    });
    std::vector<std::string> texts;
    for (std::size_t r = 0; r < forwards_.size(); ++r)
      texts.push_back(std::to_string(other(r).values[i].facts.sizes[d]));
    burnt_in(*maker, "size " + std::to_string(d) + " of its result", texts,
             "it is no sum, product or quotient of the sizes");
  }

  std::vector<RecordedForward>& forwards_;
  const Recording& first_;
  Graph graph_;
};

IKEBANA_INLINE Graph graph_of(std::vector<RecordedForward> forwards,
                              const std::vector<Values>& symbols) {
  return GraphMaker(forwards, symbols).make();
}

}  // namespace ikebana::detail::exported
