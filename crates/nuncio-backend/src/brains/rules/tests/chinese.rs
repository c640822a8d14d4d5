use super::RulesTestAgent;
use super::transcript::check;

#[test]
fn room_is_found_booked_and_looked_up_in_chinese_conversation() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: 你好
        says: 您好，欢迎光临豪华大酒店！您想查询空房还是预订客房？
        guest: 帮我查一下12月24日到26日的套房
        says: 一共几位客人？
        guest: 两个人
        calls: search_rooms {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2,"room_type":"suite"}
        gets: {"rooms":[{"room_id":"room-401","type":"suite","description":"River suite.","max_guests":3,"price_per_night":329,"currency":"EUR","nights":2,"total":658}]}
        says: 2026年12月24日至2026年12月26日，2 位客人，可订的房间：
        • room-401（套房，最多 3 人）：每晚 329 欧元，共 658 欧元
        想订哪一间？请告诉我房号。
        guest: room-401
        says: 请问用什么姓名预订？
        guest: 我叫王伟
        calls: make_reservation {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2,"room_id":"room-401","guest_name":"王伟"}
        gets: {"reservation":{"reservation_id":"GH-000001","room_id":"room-401","type":"suite","check_in":"2026-12-24","check_out":"2026-12-26","nights":2,"guests":2,"guest_name":"王伟","total":658,"currency":"EUR","status":"confirmed"}}
        says: 预订成功！王伟，room-401 已为您保留，2026年12月24日至2026年12月26日，共 2 晚，总价 658 欧元。您的预订号是 GH-000001。
        guest: 谢谢
        says: 不客气，祝您愉快！
        guest: 查看我的预订
        calls: get_reservation {"reservation_id":"GH-000001"}
        gets: {"reservation":{"reservation_id":"GH-000001","room_id":"room-401","type":"suite","check_in":"2026-12-24","check_out":"2026-12-26","nights":2,"guests":2,"guest_name":"王伟","total":658,"currency":"EUR","status":"confirmed"}}
        says: 预订 GH-000001（已确认）：王伟，room-401，2026-12-24 至 2026-12-26，2 位客人，总价 658 欧元。
        guest: 取消预订
        calls: cancel_reservation {"reservation_id":"GH-000001"}
        gets: Tool execution failed: Reservation GH-000001 is already cancelled
        says: 没有成功：Reservation GH-000001 is already cancelled
        "#,
    );
}

#[test]
fn chinese_booking_asks_for_missing_slots_one_after_another() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: 我想订一个房间
        says: 好的。请问您哪天入住？
        guest: 明天
        says: 哪天退房？
        guest: 住三晚
        says: 一共几位客人？
        guest: 两位
        says: 要订哪一间？请告诉我房号，例如 203；也可以问“有哪些空房？”。
        guest: 有哪些空房？
        calls: search_rooms {"check_in":"2026-11-16","check_out":"2026-11-19","guests":2}
        gets: {"rooms":[]}
        says: 很抱歉，2026年11月16日至2026年11月19日没有适合 2 位客人的空房。换个日期试试？
        guest: 那就订２０３吧
        says: 请问用什么姓名预订？
        guest: Li Wei
        calls: make_reservation {"check_in":"2026-11-16","check_out":"2026-11-19","guests":2,"room_id":"room-203","guest_name":"Li Wei"}
        gets: Tool call denied
        says: 没有得到许可，所以没有预订。
        "#,
    );
}

#[test]
fn chinese_cancel_phrase_abandons_the_current_intent() {
    check(
        &RulesTestAgent::hotel(),
        "guest: 取消预订
        says: 要取消哪个预订？请告诉我预订号，例如 GH-7K3QXM。
        guest: 算了吧
        says: 好的，那就算了。还需要什么帮助？
        guest: 订房
        says: 好的。请问您哪天入住？
        guest: 取消
        says: 好的，那就算了。还需要什么帮助？",
    );
}

#[test]
fn one_chinese_sentence_can_fill_all_slots() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: 请帮我预订203房间，2026年12月24日至26日，两位客人，姓名王小明
        calls: make_reservation {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2,"room_id":"room-203","guest_name":"王小明"}
        "#,
    );
}

#[test]
fn single_chinese_messages_get_expected_reply_or_call() {
    for (said, done) in [
        ("取消GH-7K3QXM", r#"calls: cancel_reservation {"reservation_id":"GH-7K3QXM"}"#),
        ("我想查一下订单GH-7K3QXM", r#"calls: get_reservation {"reservation_id":"GH-7K3QXM"}"#),
        ("请问标准间多少钱一晚", "says: 请问您哪天入住？"),
        (
            "帮我找家庭房，12月24号到26号，一家四口",
            r#"calls: search_rooms {"check_in":"2026-12-24","check_out":"2026-12-26","guests":4,"room_type":"family"}"#,
        ),
        (
            "明天到后天有空房吗？两个人",
            r#"calls: search_rooms {"check_in":"2026-11-16","check_out":"2026-11-17","guests":2}"#,
        ),
    ] {
        check(&RulesTestAgent::hotel(), &format!("guest: {said}\n{done}"));
    }
}

#[test]
fn chinese_language_option_gives_chinese_reply_to_english_message() {
    let mut hotel = RulesTestAgent::hotel();
    hotel.options.insert(nuncio_core::ids::OptionName::parse("language").unwrap(), "中文".into());
    check(
        &hotel,
        "guest: book a room
        says: 好的。请问您哪天入住？",
    );
}
