"""Which tests are long: ``make test`` leaves them to ``make test-all``, which runs everything.

A test is long that has the marker ``long``, that is one of benchmarks, that takes a fixture of
``LONG_FIXTURES``, or that is one of the cases of a costly function which ``CASES`` does not choose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch

import pytest

LONG_FIXTURES = {"three_ranks", "agreement", "several_steps", "commands", "told"}
"""Fixtures that start three ranks or more."""

CASES: dict[str, dict[str, int | tuple[str, ...]]] = {
    # The first page and two tutorials; the other pages are long.
    "test_discrete_unknowns.py": {
        "test_boolean_equations_switch_as_when_equations_do": 2,
    },
    "test_documents.py": {
        "test_the_examples_of_a_page_run_in_their_order": (
            "README.md",
            "docs/tutorial_c*",
            "docs/tutorial_mod*",
        ),
        "test_the_tables_of_models_have_the_sizes_that_the_program_finds": (
            "!charges-on-sphere, 20",
            "!op-amp-cascade*",
        ),
    },
    # How many of the others, or which.
    "test_adaptive.py": {
        "test_a_guess_far_up_an_exponential_is_no_solution": ("!0.0001-radau-iia-11-Rectifier",),
        "test_a_potential_between_an_inductor_and_a_diode_that_opens_is_held_at_the_end_of_each_step": 0,
        "test_iterations_do_not_end_before_what_follows_from_others": 10,
        "test_the_error_follows_the_tolerance": 40,
        "test_velocities_that_follow_accelerations_may_carry_their_rounding": 0,
    },
    "test_adaptive_sdc.py": {
        "test_the_error_decreases_with_the_tolerance": 5,
    },
    "test_algorithms.py": {
        "test_a_long_parameter_is_a_number": 0,
    },
    "test_aliases.py": {
        "test_degrees_of_freedom_stay_and_the_index_does_not_rise": (
            "!charges-on-sphere",
            "!pendulum-chain",
            "!suspension",
        ),
        "test_long_chains": 1,
    },
    "test_assigned_values.py": {
        "test_all_ways_of_changing_a_value_are_one_in_every_place": 12,
    },
    "test_between_steps.py": {
        "test_a_fast_current_does_not_spoil_what_it_flows_through": 3,
        "test_an_algebraic_unknown_that_jumps_has_the_values_of_its_equation": 2,
        "test_factors_of_other_equations_are_not_used": 2,
        "test_fast_components_are_as_good_between_long_steps_where_that_is_asked": 2,
        "test_many_values_are_exact_with_few_jacobians": 2,
        "test_rounded_values_are_whole_numbers_at_the_times_asked_for": 1,
    },
    "test_bounds.py": {
        "test_attributes_of_a_wrong_type_are_errors_of_one_line": 9,
    },
    "test_bridge.py": {
        "test_a_capacitor_across_a_source_is_solved": ("1e-06-three nodes",),
    },
    "test_brush_tyre.py": {
        "test_structure_start_and_rest": 1,
    },
    "test_callables.py": {
        "test_any_callable_is_solved": 6,
    },
    "test_catalogue.py": {
        "test_solutions_with_and_without_reduction_end_at_the_same_values": 1,
    },
    "test_certified_roots.py": {
        "test_roots_of_a_polynomial_of_wilkinson_are_right_and_lost_ones_are_counted": ("10",),
    },
    "test_checkpoint.py": {
        "test_a_resumed_run_to_a_tolerance_is_the_run_without_checkpoints": (
            "pendulum-*",
            "robertson-settings2",
            "charge-pump-*",
            "discontinuous-*",
            "transmission-line-*",
        ),
        "test_kills_at_random_times_lose_no_step_and_damage_no_file": 0,
        "test_ranks_that_share_nodes_go_on_together": 0,
    },
    "test_cli.py": {
        "test_lists_need_no_docstrings": 0,
    },
    "test_code_digest.py": {
        "test_another_checkout_with_other_times_lines_and_functions_compiles_nothing": 0,
    },
    "test_codegen.py": {
        "test_long_programs": 1,
    },
    "test_cold_start.py": {
        "test_a_function_whose_file_is_gone_is_compiled_anew": 1,
        "test_a_broken_file_is_named_and_its_function_compiled_anew": 1,
    },
    "test_complex_step.py": {
        "test_a_kernel_of_inlined_functions_is_kept_on_disk_until_they_change": 0,
        "test_copies_have_arrays_of_their_own": 2,
    },
    "test_conduction_pulses.py": {
        "test_a_bridge_is_right_in_every_row": 1,
        "test_a_pulse_of_the_input_of_a_called_function_is_not_stepped_over": 5,
    },
    "test_controllers.py": {
        "test_adaptivity_of_converged_steps_meets_its_tolerance": 3,
    },
    "test_declared_index.py": {
        "test_a_failed_run_tells_which_ways_to_reduce_its_index_were_tried": 0,
        "test_a_first_step_of_mixed_rows_is_measured_at_its_start": 2,
        "test_a_jacobian_does_not_switch_reduction_off": 0,
        "test_called_equations_whose_rows_are_mixed_by_the_unknowns_hold_30_rtol": 0,
        "test_called_linear_equations_of_index_2_hold_30_rtol_in_every_unknown": 3,
        "test_derivatives_of_inputs_that_are_not_smooth_are_taken_beside_where_they_are_not": 2,
        "test_linear_equations_of_index_2_hold_30_rtol_in_every_unknown": 2,
        "test_turning_equations_whose_offsets_are_above_their_index_are_reduced": 1,
    },
    "test_dense_output.py": {
        "test_between_runge_kutta_steps_the_order_is_that_at_their_ends": 12,
        "test_the_solution_is_continuous_and_keeps_the_values_at_the_steps": 25,
    },
    "test_difference_jacobians.py": {
        "test_scrambled_fully_implicit_equations_run_without_a_jacobian": 4,
    },
    "test_disagreeing_ranks.py": {
        "test_a_rank_that_leaves_ends_the_others": 0,
    },
    "test_drift.py": {
        "test_a_curve_for_each_case_in_three_panels": 0,
        "test_baumgarte_and_implicit_methods_bound_what_they_do_not_keep": 0,
        "test_pictures_of_damaged_files_are_refused": 0,
        "test_the_cases_are_there": 0,
        "test_the_energy_of_rattle_errs_as_the_square_of_the_step_and_does_not_drift": 0,
        "test_the_numbers_are_those_of_the_steps": 0,
        "test_what_is_projected_is_kept_to_round_off_and_the_rest_is_not": 0,
        "test_without_projection_the_velocity_drifts_as_t_and_the_position_as_its_square": 0,
    },
    "test_driven_diodes.py": {
        "test_a_start_near_zero_is_no_size_of_what_begins_to_flow_later": 6,
        "test_a_large_value_of_an_exponential_law_is_no_size_of_an_unknown": 1,
    },
    "test_error_estimates.py": {
        "test_errors_that_grow_in_every_step_end_the_run_with_the_reason": 2,
        "test_fourth_order_pairs_reach_the_tolerance_where_a_kernel_of_index_one_turns": 0,
        "test_noise_below_the_tolerance_costs_nothing": 4,
        "test_steps_in_fixed_coordinates_forget_errors": 1,
        "test_with_success_turning_coordinates_cost_no_more_than_is_told": 2,
    },
    "test_event_changes.py": {
        "test_bounces_that_accumulate_end_the_run_at_their_limit": 3,
    },
    "test_events.py": {
        "test_a_switch_acts_in_both_directions_and_algebraic_unknowns_jump": 2,
    },
    "test_events_ahead.py": {
        "test_most_steps_are_taken_ahead": 4,
        "test_steps_of_sweeps_are_those_of_the_controller": 6,
        "test_steps_of_one_size_are_those_of_the_controller": 8,
    },
    "test_fixed_expressions.py": {
        "test_what_cannot_be_fixed_is_refused_in_one_line": ("!fixed6-*",),
    },
    "test_frames.py": {
        "test_a_frame_with_138_degrees_of_freedom_agrees_with_numbers": 0,
        "test_derivatives_of_frames_are_exact": ("lu",),
        "test_every_factorisation_solves_and_differentiates": ("!True-qr",),
    },
    "test_from_file.py": {
        "test_a_thousand_trivial_equations": 0,
        "test_from_the_command_line": 0,
    },
    "test_from_pysdc.py": {
        "test_a_problem_of_theirs_ends_in_our_sweepers_where_it_ends_in_theirs": (
            "!wscc9-*",
            "!synchronous-machine-*",
            "!*-ConstrainedDAE",
        ),
        "test_equations_are_read_in_a_description": 6,
    },
    "test_growth_of_errors.py": {
        "test_an_unstable_equation_of_low_index_runs_with_every_method": 0,
        "test_growth_of_the_solution_itself_is_never_refused": 1,
        "test_methods_that_are_stable_run": 4,
        "test_rows_mixed_by_the_unknowns_are_solved_or_refused": ("1-0.05-backward-euler", "2-0.05-gauss-4"),
        "test_steps_of_a_fixed_size_in_which_errors_grow_end_the_run": 4,
    },
    "test_hidden_constraints.py": {
        "test_a_current_of_index_2_is_right_or_told_with_its_error": 1,
        "test_all_unknowns_are_accurate_to_ten_tolerances": 4,
        "test_problems_with_kernels_are_read_where_it_is_asked": 2,
    },
    "test_homotopy.py": {
        "test_workers_do_not_change_the_solutions": 0,
    },
    "test_hooks.py": {
        "test_the_work_of_the_steps_adds_up": 20,
    },
    "test_in_pysdc.py": {
        "test_a_run_goes_on_from_its_checkpoint_to_the_last_bit": 2,
        "test_a_step_ends_behind_its_switch_without_any_control": 5,
        "test_a_switch_is_met_in_every_run_of_a_fixed_step_size": 0,
        "test_a_switch_is_met_where_steps_iterate_together": 3,
        "test_steps_of_a_given_accuracy_are_those_of_solve": 8,
    },
    "test_index.py": {
        "test_a_run_needs_no_declared_index": 4,
        "test_the_index_of_scrambled_linear_equations_is_found": 2,
        "test_the_index_of_the_catalogue_is_found": 16,
    },
    "test_initial.py": {
        "test_guesses_near_a_rest_lead_to_values_as_near": 1,
        "test_the_last_of_many_pendula_knows_nothing_of_the_others": 0,
        "test_the_robot_arm_is_found_from_its_angles_alone": 0,
        "test_values_that_contradict_each_other_are_named": ("!fixed2-*",),
        "test_whole_turns_of_angles_are_no_other_solutions": 0,
    },
    "test_invariants.py": {
        "test_every_kind_of_method_keeps_its_order_on_the_invariants": 1,
        "test_the_torus_is_not_left_for_long": 0,
    },
    "test_jumps_of_algebraic_unknowns.py": {
        "test_a_jump_like_one_before_needs_no_homotopy": 0,
        "test_a_bridge_of_exponential_diodes_runs_by_default": 1,
        "test_a_fold_is_no_jump_of_the_equations": 2,
        "test_a_run_with_jumps_is_resumed_to_the_last_bit": 0,
        "test_an_algebraic_unknown_jumps_where_a_conductance_switches": (
            "function-0.0001",
            "breakpoints-1e-09",
        ),
        "test_buck_converters_run_by_default": 1,
        "test_jumps_that_nobody_announced_are_counted": 0,
        "test_rectifiers_of_exponential_diodes_are_those_of_one_equation": ("rectifier-1e-06",),
    },
    "test_kernels.py": {
        "test_a_global_number_is_that_of_the_run_and_not_that_of_an_earlier_one": 0,
        "test_a_parameter_changed_later_reaches_the_equations_as_one_given_first": 12,
    },
    "test_kinks.py": {
        "test_no_pulse_of_a_resistive_diode_is_stepped_over": 2,
        "test_switches_and_events_by_unknowns_without_derivatives_are_not_stepped_over": 1,
        "test_no_pulse_of_an_exponential_diode_is_stepped_over": 8,
    },
    "test_large_problems.py": {
        "test_sweeps_reach_the_orders_of_theory": 4,
        "test_ten_thousand_unknowns_are_solved": 1,
    },
    "test_layers.py": {
        "test_the_package_keeps_the_rules": ("!wrong_floors", "!eager_front_door"),
    },
    "test_linear.py": {
        "test_factors_do_not_change_with_the_matrix_they_were_made_of": 4,
        "test_the_next_matrix_of_a_pattern_is_solved_with_the_ordering_of_the_first": 4,
    },
    "test_linearize.py": {
        "test_a_flexible_structure_has_the_frequencies_of_its_formula": 0,
        "test_the_verb_writes_a_file_that_four_pictures_draw": 0,
    },
    "test_manifold.py": {
        "test_a_crossing_of_wires_is_passed_straight_and_told": 2,
        "test_a_run_goes_on_from_a_checkpoint_to_the_last_bit": 4,
        "test_a_wire_that_bends_near_another_is_no_crossing": 1,
        "test_drift_from_the_constraints_over_a_long_time": 0,
        "test_every_type_keeps_its_constraints_and_the_tolerance": 8,
        "test_methods_reach_their_orders_on_every_type": 4,
        "test_rattle_does_not_lose_energy": 0,
    },
    "test_manifold_problems.py": {
        "test_compiled_equations_are_those_of_the_parts_in_every_formulation": 1,
        "test_known_solutions_satisfy_every_formulation": 2,
    },
    "test_methods_in_controllers.py": {
        "test_methods_without_sweeps_end_in_several_steps_at_once_where_single_steps_do": 4,
    },
    "test_modelica.py": {
        "test_another_parser_reads_the_same_names": 6,
    },
    "test_modelica_errors.py": {
        "test_a_text_that_is_only_long_is_read": ("!elements",),
        "test_a_text_that_would_take_forever_is_refused": (
            "!brackets",
            "!doubling components",
            "!doubling functions",
            "!sums of sums",
        ),
        "test_what_is_not_understood_is_refused_in_one_line": ("!more than 50000_1",),
        "test_what_is_too_large_is_refused_before_it_costs": ("!value3-*", "!value4-*"),
    },
    "test_modelica_writer.py": {
        "test_simplified_and_reduced_models_have_the_solutions_of_before": 5,
        "test_every_model_comes_back": 20,
    },
    "test_modes.py": {
        "test_a_clutch_closes_and_opens_again_however_it_is_written": 8,
        "test_a_bridge_of_four_ideal_diodes_charges_a_capacitor": 1,
        "test_a_bridge_of_four_ideal_diodes_rectifies": 1,
        "test_a_diode_charges_a_capacitor": 2,
        "test_a_diode_feeds_a_coil_and_blocks": 2,
        "test_a_function_that_is_read_goes_through_modes_where_it_fails_as_it_is": 2,
        "test_a_string_goes_slack_and_catches": 2,
        "test_models_of_issues_whose_number_of_states_changes": 3,
        "test_converters_conduct_continuously_or_not": ("buck-discontinuous-1e-06", "boost-continuous-1e-06"),
        "test_two_clutched_inertias_keep_their_momentum_and_capacitors_their_charge": 3,
    },
    "test_multistep.py": {
        "test_a_run_grows_as_its_characteristic_root_says": 5,
        "test_a_step_that_does_not_follow_the_last_one_begins_anew": 6,
        "test_all_components_of_daes_have_the_order_of_the_method": 3,
        "test_between_the_steps_the_order_is_that_at_their_ends_up_to_four": 4,
        "test_both_correctors_solve_the_same_equations": 6,
        "test_matrices_are_kept_over_the_steps": 2,
        "test_ordinary_equations_are_solved_to_the_order_of_the_method": 6,
        "test_starting_values_by_the_euler_method_cost_all_orders_but_two": 2,
        "test_ten_digits_of_the_elastic_pendulum_are_right": 2,
        "test_the_end_of_the_elastic_pendulum_is_off_by_the_error_of_the_method": 1,
        "test_the_multiplier_of_even_turning_has_an_odd_order": 1,
    },
    "test_newton.py": {
        "test_an_old_matrix_does_not_lead_to_another_solution": 5,
    },
    "test_orders.py": {
        "test_runge_kutta_methods_reach_their_declared_orders": (
            "!edirk4-3",
            "!esdirk32-3",
            "!esdirk43-*",
            "!gauss-6-*",
            "!radau-iia-3-*",
            "!radau-iia-5-*",
            "!trapezoidal-2",
        ),
        "test_sdc_reaches_the_order_of_its_collocation": (
            "!*-4-*",
            "!*-LOBATTO-3-*",
            "!fully-implicit-RADAU-RIGHT-3-3",
        ),
    },
    "test_parallel.py": {
        "test_a_launcher_of_another_mpi_is_noticed": 0,
        "test_one_process_of_a_parallel_run_needs_no_launcher": 0,
        "test_without_mpi4py_serial_runs_work_and_parallel_ones_say_what_to_install": 0,
    },
    "test_parallel_faults.py": {
        "test_a_hook_that_raises_an_error_of_this_package_on_one_rank_ends_all": 0,
        "test_a_hook_that_raises_on_one_rank_ends_all": 0,
        "test_a_killed_rank_takes_the_others_with_it_and_files_stay_whole": 0,
        "test_an_interrupt_that_reaches_one_rank_alone_ends_all": 0,
        "test_finished_results_stay_when_a_run_is_ended": 0,
        "test_the_command_says_in_one_line_what_happened_on_any_rank": ("MemoryError-steps-2-*",),
    },
    "test_parts_of_pysdc.py": {
        "test_every_part_works_or_refuses_in_a_line": 5,
        "test_no_step_is_accepted_for_its_extrapolated_guess_alone": 3,
        "test_the_switch_estimator_of_pysdc_finds_our_switches": 1,
    },
    "test_paths_of_homotopies.py": {
        "test_at_a_double_solution_it_is_of_order_one_half": 0,
    },
    "test_pendulum_study.py": {
        "test_every_method_has_a_picture_with_the_start_in_it": 0,
    },
    "test_piecewise_linear.py": {
        "test_generated_equations_linear_in_pieces_are_exact": 1,
    },
    "test_pipe_network.py": {
        "test_the_default_method_solves_any_size_in_a_few_steps": 2,
    },
    "test_plotting.py": {
        "test_a_value_that_is_cut_is_told_and_others_are_not": 1,
        "test_formats_follow_the_suffix_and_are_the_same_every_time": ("linear-pendulum-.png",),
        "test_many_groups_and_curves_fit_on_the_page": 0,
        "test_pictures_need_no_display_whatever_backend_is_set": 0,
        "test_settings_of_matplotlib_are_neither_used_nor_changed": 0,
        "test_short_and_unfinished_solutions_are_drawn": 1,
        "test_texts_of_any_letters_are_drawn": 1,
        "test_the_picture_goes_beside_the_result": 1,
        "test_time_steps_that_are_a_name_only_may_have_any_value": 0,
        "test_unknowns_choose_the_curves_and_lift_the_limit": 0,
        "test_values_of_any_size_are_drawn": 2,
    },
    "test_pools.py": {
        "test_all_that_a_user_gets_is_read_by_another_process": 0,
        "test_solutions_come_back_from_every_pool_with_the_values_between_their_steps": 0,
        "test_what_has_no_name_says_so_in_one_line": 0,
    },
    "test_problem.py": {
        "test_every_problem_of_the_library_is_the_same_for_one_node_and_for_many": (
            "car-axis",
            "hessenberg-*",
            "pendulum",
            "simple",
            "transmission-line",
            "two-transistor",
        ),
    },
    "test_problem_starts.py": {
        "test_what_is_none_in_a_start_follows_from_the_rest": 1,
        "test_a_perturbed_start_is_refused_by_name_or_repaired_as_asked": 1,
        "test_a_run_from_a_start_made_consistent_keeps_all_constraints": 2,
        "test_a_start_of_some_unknowns_is_completed": ("traced",),
        "test_a_start_typed_in_eight_digits_is_moved_onto_the_constraints": 3,
        "test_hidden_constraints_are_met_that_rounding_errors_of_numbers_hide": 1,
        "test_starts_of_the_catalogue_are_taken_without_a_word": (
            "!two-bit-adder-traced",
            "!wheelset-traced",
            "!navier-stokes-traced",
            "!slider-crank-traced",
            "!fekete-traced",
            "!water-tube-untraced",
            "!andrews-*",
            "![b-h]*-untraced",
            "![i-z]*-traced",
        ),
        "test_the_command_line_makes_starts_consistent": 0,
        "test_what_does_not_go_together_is_said_in_one_line": ("!no solution",),
    },
    "test_problems.py": {
        "test_a_problem_with_eval_f_alone_passes_the_tests_of_this_file": 0,
        "test_stored_amplifier_against_an_independent_integration": 1,
    },
    "test_pulsed_circuits.py": {
        "test_adder_reaches_its_outputs_and_adds": 0,
        "test_ida_reaches_the_end_values": ("!two-bit-adder-*",),
        "test_nand_gate_is_right_at_every_corner_of_its_inputs": 0,
    },
    "test_quasilinear.py": {
        "test_a_run_does_not_begin_beside_a_hidden_constraint": 2,
        "test_equations_are_read_from_the_parts": (
            "Surface",
            "Pendulum",
            "Compiled",
            "WithB",
            "Held",
            "Circle",
            "Implicit",
        ),
        "test_radau_has_the_orders_of_theory_by_component_class": 1,
    },
    "test_rectifiers.py": {
        "test_a_bridge_with_inductances_at_both_sides_commutates": 2,
        "test_a_bridge_of_six_diodes_commutates_by_its_closed_form": 1,
    },
    "test_reduced_code.py": {
        "test_a_projection_fails_where_no_point_satisfies_the_invariants": 0,
        "test_a_projection_is_the_nearest_point_on_the_invariants": ("car-axis", "reissig", "torus-particle"),
        "test_code_of_a_model_gives_what_the_form_inside_gives": (
            "pendulum-*",
            "dc-motor-*",
            "spring-damper-semi-explicit",
        ),
        "test_steps_of_runge_kutta_have_equal_digits_in_c_and_numba": ("pendulum",),
        "test_veils_have_the_names_and_the_order_of_the_reduction": 0,
    },
    "test_reduction.py": {
        "test_end_values_of_the_test_set": 2,
        "test_every_kind_of_method_takes_a_reduced_problem": 4,
        "test_every_model_is_reduced_to_regular_equations": 2,
        "test_large_and_explosive_systems_take_the_stages": 0,
        "test_passes_are_the_index_and_invariants_leave_the_degrees_of_freedom": ("!seven-body-*",),
        "test_robot_arm_follows_its_path": 0,
        "test_veils_stand_for_what_they_replace": 0,
    },
    "test_redundant_equations.py": {
        "test_a_circuit_without_ground_is_as_with_one_or_is_refused_as_with_one": 8,
        "test_values_of_a_function_that_contradict_each_other_are_named": ("!circle-u01-*",),
    },
    "test_results.py": {
        "test_killed_writer_leaves_only_whole_results": 0,
    },
    "test_results_kept.py": {
        "test_a_killed_run_leaves_the_finished_result_and_the_next_one_no_hidden_file": 0,
        "test_a_signal_ends_a_run_with_its_code_and_keeps_what_there_is": 0,
        "test_a_verb_shows_its_values_and_fails_where_the_disk_is_full": 0,
        "test_output_times_have_the_same_digits_where_steps_are_forgotten": 0,
        "test_runs_in_a_loop_do_not_grow": 0,
        "test_streams_that_take_nothing_keep_the_result": 0,
        "test_what_was_computed_comes_back_from_a_full_disk": 0,
        "test_with_output_times_a_run_keeps_nothing_of_its_steps": 0,
    },
    "test_scripts.py": {
        "test_a_file_of_the_room_run_is_the_verb_or_says_in_a_line_that_it_is_none": 0,
        "test_a_script_does_what_the_verb_does": 0,
        "test_a_verb_that_another_room_carries_out_is_a_script_in_both": 0,
        "test_files_of_other_rooms_are_no_scripts": 0,
        "test_rooms_imported_from_the_root_are_those_of_the_package": 1,
    },
    "test_simplify.py": {
        "test_a_solution_goes_to_another_process_with_all_unknowns": 0,
        "test_solving_by_the_command_line": 0,
        "test_the_equations_hold_for_what_is_said_of_the_unknowns": 2,
    },
    "test_singular.py": {
        "test_a_run_does_not_creep_onto_the_other_branch": 0,
        "test_equal_bars_stop_where_the_constraint_loses_its_rank": 2,
        "test_regular_models_report_nothing": ("transistor-amplifier",),
    },
    "test_singular_points.py": {
        "test_singular_points_are_those_of_algebra": 8,
    },
    "test_site.py": {
        "test_the_example_of_a_kind_of_picture_draws_it": ("sweep",),
        "test_the_example_of_a_public_name_runs": 36,
    },
    "test_sliding.py": {
        "test_a_run_goes_on_in_the_middle_of_sliding_to_the_last_bit": 1,
        "test_static_friction_above_kinetic_sticks_and_slips": (
            "20.0-function-1e-09",
            "13.0-modelica-0.0001",
        ),
        "test_a_mass_on_a_belt_sticks_and_slips": 4,
        "test_generated_relays_are_those_of_matrix_exponentials": 4,
    },
    "test_small_starts.py": {
        "test_a_jump_at_the_start_is_no_noise": 3,
        "test_a_pole_behind_the_start_costs_no_digits_of_what_runs_away_from_it": 2,
    },
    "test_square_waves.py": {
        "test_a_square_wave_is_right_in_every_spelling": 3,
    },
    "test_stale_and_one_sided.py": {
        "test_equations_without_algebraic_unknowns_run_with_every_method": 10,
        "test_equations_without_any_derivative_run_with_every_method": 10,
    },
    "test_start_bounds.py": {
        "test_a_start_that_is_not_found_without_a_bound_is_told_with_the_guesses_to_give": 0,
    },
    "test_start_files.py": {
        "test_progress_is_shown_when_asked_and_not_into_a_pipe": 4,
    },
    "test_start_guesses.py": {
        "test_a_pattern_stands_for_the_names_that_it_matches": 0,
        "test_an_exact_name_wins_over_a_pattern": 0,
        "test_guesses_are_the_end_of_another_result": (
            "True-solution",
            "True-file of a start",
        ),
        "test_patterns_of_models_leave_fixed_starts_alone": 0,
    },
    "test_start_paths.py": {
        "test_what_equations_tell_is_solved_before_what_depends_on_it": 1,
        "test_a_block_that_newtons_method_does_not_solve_is_solved_along_a_path": 0,
        "test_a_column_comes_to_rest_from_equal_trays_at_25_degrees": ("15-False",),
        "test_a_failure_names_the_smallest_block_its_guesses_and_what_helps": 0,
        "test_a_failure_without_fixed_values_names_the_block_too": 0,
        "test_exponential_diodes_start_from_any_voltage": 1,
    },
    "test_starts.py": {
        "test_of_all_roots_the_nearest_in_units_of_the_guesses_is_taken": 6,
        "test_pendula_that_drive_each_other_are_reduced_without_being_asked": 1,
        "test_small_unknowns_are_found_to_all_digits": 1,
        "test_the_problem_of_a_model_knows_its_hidden_constraints": 0,
    },
    "test_steady.py": {
        "test_every_entry_of_the_catalogue_rests_or_is_known_not_to": 9,
    },
    "test_steps_ahead.py": {
        "test_steps_of_one_size_are_those_of_the_controller": 12,
        "test_steps_of_every_linear_solver_are_those_of_the_controller": 8,
        "test_steps_of_pairs_are_those_of_the_controller": 3,
        "test_steps_of_equations_in_python_are_those_of_the_controller": 3,
        "test_solved_steps_are_counted_once": ("!wheelset",),
        "test_steps_are_those_of_the_controller_with_options": 7,
        "test_steps_of_models_are_those_of_the_controller": 0,
    },
    "test_structure.py": {
        "test_a_hundred_thousand_equations_with_known_structure": 0,
    },
    "test_structure_models.py": {
        "test_large_models": 0,
        "test_linear_systems_have_the_index_of_their_pencil": 0,
        "test_pictures": 1,
        "test_the_table": ("!ring-modulator-0", "!robot-arm"),
    },
    "test_studies.py": {
        "test_a_study_killed_at_any_moment_leaves_only_whole_files": 0,
    },
    "test_sundials.py": {
        "test_errors_follow_the_tolerance": 1,
        "test_the_first_order_needs_as_many_steps_as_its_error_says": 0,
    },
    "test_surroundings.py": {
        "test_a_broken_mpi_is_named_where_it_is_asked_for": 0,
        "test_a_damaged_file_is_named_removed_and_compiled_anew": ("llvm-*",),
        "test_a_number_of_threads_without_which_numba_is_not_imported_is_told": 0,
        "test_a_process_whose_directory_is_gone_imports_and_solves": 0,
        "test_an_interrupt_while_code_is_compiled_ends_the_run": 0,
        "test_forked_and_spawned_processes_get_the_same_digits": 0,
        "test_serial_runs_and_studies_need_no_mpi": 0,
        "test_states_of_pysdc_take_a_communicator_whenever_mpi_was_imported": 0,
        "test_threads_that_solve_first_get_the_digits_of_single_runs": 0,
        "test_two_versions_and_four_processes_fill_one_directory": 0,
        "test_variables_of_numba_do_not_matter_to_a_first_run": 0,
        "test_what_others_can_write_is_not_loaded_and_the_directory_is_named": ("llvm-*",),
    },
    "test_suspension.py": {
        "test_a_stiff_suspension_is_rigid": 0,
        "test_assumptions_have_their_index_and_poles": 1,
        "test_small_loads_move_it_as_the_linear_answer_says": 0,
        "test_the_compliant_suspension_is_displaced_as_its_frame_is": 0,
    },
    "test_sweep.py": {
        "test_draws_have_the_moments_of_their_distribution": 0,
        "test_many_runs_long_names_and_wide_ranges_have_their_place": 0,
        "test_workers_find_what_one_process_finds": 0,
    },
    "test_switched_examples.py": {
        "test_a_ball_bounces_twenty_times": 2,
        "test_a_bridge_behind_inductors_in_a_star_switches_where_it_must": 1,
        "test_a_comparator_jumps_where_its_branch_folds_back": 4,
    },
    "test_tableaux.py": {
        "test_declared_orders_are_measured": 2,
        "test_declared_orders_follow_from_order_conditions": ("!radau-iia-5-2",),
    },
    "test_tables.py": {
        "test_a_table_of_many_places_is_left_to_the_step_size": 1,
        "test_a_force_follows_from_a_motion_by_a_table": 3,
        "test_a_run_is_the_integral_of_a_table_of_time": 6,
        "test_a_run_passes_the_places_of_a_table_at_their_times": 8,
        "test_a_solution_may_rest_at_a_place_of_a_table_or_swing_about_it": 1,
    },
    "test_teams.py": {
        "test_a_pool_ends_with_its_solver": 0,
        "test_threads_give_the_values_of_one_to_the_last_bit": (
            "3-transmission-line",
            "*-ring-modulator",
            "*-pendulum",
            "*-simple",
        ),
    },
    "test_testset_records.py": {
        "test_kinetics_reach_the_reference_by_an_integration_of_the_differential_part": ("!robertson-*",),
        "test_mechanisms_reach_the_reference_with_collocation": 2,
        "test_slider_crank_reaches_the_reference_by_an_integration_of_the_reduced_equations": 0,
    },
    "test_time_limits.py": {
        "test_ranks_end_together": 0,
    },
    "test_traced_catalogue.py": {
        "test_index_and_jacobians_are_those_of_the_catalogue": (
            "car-axis",
            "catalyst",
            "charge-pump",
            "hessenberg-*",
            "pendulum",
            "problematic-f",
            "robertson",
            "simple",
            "skate",
            "two-transistor",
        ),
        "test_runs_take_the_steps_of_the_catalogue": (
            "car-axis",
            "catalyst",
            "charge-pump",
            "hessenberg-*",
            "pendulum",
            "robertson",
            "simple",
            "two-transistor",
        ),
    },
    "test_transfer.py": {
        "test_at_index_2_later_steps_converge_with_the_first": 4,
        "test_errors_of_what_constraints_fix_obey_the_two_level_operator": 2,
        "test_index_3_converges_with_lu": 2,
        "test_levels_may_differ_in_their_unknowns": 2,
        "test_lobatto_nodes_and_incomplete_blocks_give_the_serial_solution": 2,
        "test_matched_levels_halve_the_iterations_at_index_2": 3,
        "test_matching_lowers_the_radius_of_the_two_level_operator": 2,
    },
    "test_transients.py": {
        "test_an_unknown_of_index_2_is_held_where_it_changes_within_a_step": 3,
        "test_an_unknown_that_follows_a_late_transient_is_told": 3,
        "test_generated_circuits_are_right_or_told": (
            "!circuits:144001:*",
            "!circuits:224*",
            "!mechanics-*",
            "!bridges:54002:*",
            "!bridges:78000:*",
        ),
        "test_rounding_in_short_steps_ends_no_run_whose_index_is_not_known": 0,
        "test_transients_from_known_times_and_fast_oscillations_are_not_told": 1,
    },
    "test_triangular.py": {
        "test_addresses_serve_as_arrays_in_compiled_code": 2,
        "test_compiled_loops_give_the_same_numbers": 4,
        "test_other_values_of_a_pattern_are_factorised_with_its_pivots": 3,
    },
    "test_typed_starts.py": {
        "test_typed_start_of_a_coordinate_that_stays_at_zero": ("!3-False-*",),
    },
    "test_undeclared.py": {
        "test_derivatives_in_combinations_that_change": 1,
        "test_numbers_that_are_rounded_hide_no_constraint": 2,
        "test_pendula_that_drive_each_other": 1,
        "test_reduction_by_differences_can_be_switched_off_and_needs_linear_equations": 0,
    },
    "test_units.py": {
        "test_generated_equations_are_solved_in_units_of_12_orders_of_magnitude": (
            "!varying-2:*",
            "!hessenberg-3:*",
        ),
        "test_multipliers_follow_from_hidden_constraints_in_any_units": 4,
        "test_units_that_are_powers_of_two_change_next_to_nothing": 4,
    },
    "test_user_errors.py": {
        "test_nodes_with_which_a_multiplier_does_not_converge_are_warned_of": 6,
    },
    "test_views_and_tables.py": {
        "test_views_have_tables_and_small_pictures": 0,
    },
    "test_wheelset_water_fekete.py": {
        "test_flows_change_their_kind_when_they_pass_the_critical_number": 0,
        "test_water_network_agrees_with_its_reduced_equations": 0,
        "test_water_network_is_right_at_all_changes_of_flow": 0,
        "test_wheelset_is_where_the_reference_says_after_ten_seconds": 0,
    },
    "test_witness.py": {
        "test_components_are_those_of_algebra": 20,
    },
    "test_wrong_jacobians.py": {
        "test_a_jacobian_that_is_off_by_a_factor_of_one_and_a_half_still_works": 4,
        "test_a_jacobian_that_turns_wrong_on_the_way_gives_no_wrong_digits": 11,
    },
}
"""Cases of costly functions in the fast suite, by file: how many, spread over all, or patterns of names.

Where the patterns begin with ``!`` they are those of the cases that are long, and all others are fast.
"""


def spread(count: int, of: int) -> set[int]:
    """So many of the numbers from 0 to ``of`` - 1, the first and the last among them, evenly spread."""
    return {round(k * (of - 1) / max(count - 1, 1)) for k in range(min(count, of))}


def fast_cases(family: str, names: Sequence[str]) -> set[int]:
    """Which cases of a function the fast suite runs, by their place."""
    file, _, function = family.partition("::")
    chosen = CASES.get(file, {}).get(function, len(names))
    if isinstance(chosen, int):
        return spread(chosen, len(names))
    matching = {
        k for k, name in enumerate(names) if any(fnmatch(name, part.removeprefix("!")) for part in chosen)
    }
    return set(range(len(names))) - matching if chosen[0].startswith("!") else matching


def mark_long(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that the fast suite does not run; a case that is asked for alone is one of few."""
    families = defaultdict(list)
    for item in items:
        name, _, case = item.nodeid.partition("[")
        families[name.rpartition("/")[2]].append((item, case.removesuffix("]")))
    for family, cases in families.items():
        fast = fast_cases(family, [case for _, case in cases])
        for k, (item, _) in enumerate(cases):
            starts_ranks = not LONG_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
            if k not in fast or starts_ranks or "benchmarks" in item.path.parts:
                item.add_marker(pytest.mark.long)
